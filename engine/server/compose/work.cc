#include "engine/server/compose/work.h"

#include <utility>

#include "engine/server/compose/hello.h"

namespace sandglass::engine::server::compose {

struct Work::Parts {
  explicit Parts(WorkPorts given) : ports(std::move(given)) {}

  WorkPorts ports;
  workflow::Registry workflows;
  core::ActivityRegistry activities;
};

Work::Work(WorkPorts ports) : parts_(std::make_unique<Parts>(std::move(ports))) {
  register_hello(parts_->workflows, parts_->activities, parts_->ports.runner);
}

Work::~Work() = default;

const workflow::Registry& Work::workflows() const {
  return parts_->workflows;
}
const core::ActivityRegistry& Work::activities() const {
  return parts_->activities;
}
core::Operations* Work::operations() {
  return nullptr;
}

base::Status Work::begin(Loop&) {
  return {};
}

void Work::attach_effect(base::UniqueFd) {}
void Work::poll() {}
int Work::wake_fd() const {
  return -1;
}
void Work::fill_status(::sandglass::v1::StatusReply&) const {}

}  // namespace sandglass::engine::server::compose
