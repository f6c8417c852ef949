#include "engine/server/compose/work.h"

#include <utility>

#include "activities/artifacts/artifacts.h"
#include "activities/effects/remote_executor.h"
#include "activities/gateway/http_tool.h"
#include "activities/operations/effect_operations.h"
#include "engine/server/compose/hello.h"

namespace sandglass::engine::server::compose {

namespace {

namespace operations = activities::operations;

operations::EffectTools effect_tools() {
  return {{"http_request", std::make_shared<activities::gateway::HttpTool>()}};
}

}  // namespace

struct Work::Parts {
  explicit Parts(WorkPorts given)
      : ports(std::move(given)),
        executor(ports.clock),
        tools(effect_tools()),
        effects(executor, tools, ports.clock,
                {.in_flight = ports.config.effects.max_in_flight,
                 .per_target = ports.config.effects.max_per_target}) {
    if (ports.effect) executor.attach(std::move(ports.effect));
  }

  WorkPorts ports;
  workflow::Registry workflows;
  core::ActivityRegistry activities;
  // Of the loop's thread, once that runs.
  activities::effects::RemoteExecutor executor;
  const operations::EffectTools tools;
  operations::EffectOperations effects;
};

Work::Work(WorkPorts ports) : parts_(std::make_unique<Parts>(std::move(ports))) {
  auto& parts = *parts_;
  register_hello(parts.workflows, parts.activities, parts.ports.runner);
  activities::artifacts::register_artifact_activity(parts.activities, parts.ports.blobs, parts.ports.runner);
  for (const auto& [name, tool] : parts.tools) {
    parts.activities.add(name + ".probe", parts.effects.probe_activity(name));
  }
}

Work::~Work() = default;

const workflow::Registry& Work::workflows() const {
  return parts_->workflows;
}
const core::ActivityRegistry& Work::activities() const {
  return parts_->activities;
}
core::Operations* Work::operations() {
  return &parts_->effects;
}

base::Status Work::begin(Loop&) {
  return {};
}

void Work::attach_effect(base::UniqueFd socket) {
  parts_->executor.attach(std::move(socket));
}
void Work::poll() {
  parts_->effects.poll();
}
int Work::wake_fd() const {
  return parts_->executor.wake_fd();
}
void Work::fill_status(::sandglass::v1::StatusReply&) const {}

}  // namespace sandglass::engine::server::compose
