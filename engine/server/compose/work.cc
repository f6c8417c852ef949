#include "engine/server/compose/work.h"

#include <chrono>
#include <future>
#include <map>
#include <utility>

#include "activities/agent/agent.h"
#include "activities/artifacts/artifacts.h"
#include "activities/effects/remote_executor.h"
#include "activities/gateway/gateway.h"
#include "activities/gateway/http_tool.h"
#include "activities/operations/effect_operations.h"
#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/dispatch/function_activity.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/rules.h"
#include "engine/schedule/zones/answers.h"
#include "engine/server/compose/extra_work.h"
#include "engine/server/compose/hello.h"
#include "engine/server/compose/scheduled_runs.h"
#include "sandbox-runtime/client/host_client.h"
#include "sandbox-runtime/manager/manager.h"
#include "sandbox-runtime/manager/reconciler.h"
#include "sandbox-runtime/scheduler/pool.h"

namespace sandglass::engine::server::compose {

namespace {

namespace operations = activities::operations;
namespace provider = sandbox_runtime::provider;
namespace scheduler = sandbox_runtime::scheduler;

constexpr auto kFeaturesWait = std::chrono::seconds(3);
constexpr std::int64_t kAfterGraceMs = 5'000;

operations::EffectTools effect_tools() {
  return {{"http_request", std::make_shared<activities::gateway::HttpTool>()}};
}

/// What tasks may ask for, as `network.allow` says it; the configuration's reader has checked it.
net::RuleSet allowed_destinations(const Config& config) {
  std::vector<net::RuleText> texts;
  for (const AllowedTarget& target : config.allow) {
    texts.push_back({.id = {}, .host = target.host, .ports = target.ports, .methods = target.methods});
  }
  auto rules = net::RuleSet::parse(texts);
  SG_CHECK(rules.has_value(), "network.allow was checked when the configuration was read");
  return *std::move(rules);
}

base::Status check_destination(const net::RuleSet& permitted, const provider::AllowedDestination& asked) {
  net::RuleText text{.id = asked.id, .host = asked.host, .ports = {}, .methods = asked.methods};
  for (const std::uint32_t port : asked.ports) text.ports.push_back(static_cast<std::uint16_t>(port));
  const auto covered = permitted.covers(text);
  if (!covered) return base::fail(base::Code::invalid_argument, covered.error().message);
  if (*covered) return {};
  return base::fail(
      base::Code::policy_denied,
      "network: " + base::escape_for_terminal(asked.host.substr(0, 200)) +
          " with these ports and methods is not among the destinations that the operator allows "
          "(network.allow in the server's configuration)");
}

/// Every decision of the proxy, in the engine's log (SPEC N6).
void log_verdict(const std::string& bytes) {
  ::sandglass::frame::v1::NetworkVerdict frame;
  if (!frame.ParseFromString(bytes)) return;
  base::log(base::LogLevel::info, "network_verdict", {{"verdict", net::codec::from_frame(frame).json()}});
}

/// What schedules ask (schedule/decider.h).
void register_schedules(const workflow::Registry& workflows, core::ActivityRegistry& activities,
                        base::TaskRunner& runner) {
  std::map<std::string, std::string> versions;
  for (const auto& [name, version] : workflows.list()) versions[name] = workflows.latest(name);
  activities.add("schedule.plan",
                 std::make_shared<dispatch::FunctionActivity>(
                     runner, [versions = std::move(versions)](const core::ActivityCall& call) {
                       return schedule::zones::answer_plan(call, versions);
                     }));
}

/// A command that is given at every start; done when it is durable.
base::Status give(Loop& loop, const core::StreamId& stream, core::CommandPtr command) {
  std::promise<base::Status> promise;
  auto answer = promise.get_future();
  loop.submit({.target = stream,
               .command = std::move(command),
               .on_reply = [&promise](base::Result<shard::Reply> reply) {
                 promise.set_value(reply ? base::Status() : std::unexpected(reply.error()));
               }});
  base::Status given = answer.get();
  if (!given && given.error().code == base::Code::stream_damaged)
    return {};  // parked alone, and logged (E14)
  return given;
}

}  // namespace

struct Work::Parts {
  explicit Parts(WorkPorts given)
      : ports(std::move(given)),
        executor(ports.clock),
        tools(effect_tools()),
        effects(executor, tools, ports.clock,
                {.in_flight = ports.config.effects.max_in_flight,
                 .per_target = ports.config.effects.max_per_target}),
        host({.socket_path = ports.folder.host_socket(),
              .give_up_ms = ports.config.sandbox.adopt_grace_ms + kAfterGraceMs},  // J16
             {.sandbox_ended = [this](const provider::SandboxRef& sandbox,
                                      const base::Error& why) { sandbox_ended(sandbox, why); },
              .network_verdict = log_verdict}),
        reconciler(reconciler_ports()) {
    if (ports.effect) executor.attach(std::move(ports.effect));
  }

  /// On the client's thread: the host has said it, so the lease ends now and not when it expires.
  void sandbox_ended(const provider::SandboxRef& sandbox, const base::Error& why) {
    base::log(base::LogLevel::info, "sandbox_ended",
              {{"sandbox", sandbox.id}, {"code", base::name_of(why.code)}, {"reason", why.message}});
    for (const auto& [name, tmpl] : ports.config.sandbox.templates) {
      report(scheduler::pool_stream(name), {.sandbox = sandbox.id, .token = sandbox.fence});
    }
  }

  sandbox_runtime::manager::Reconciler::Ports reconciler_ports() {
    std::vector<core::StreamId> pools;
    for (const auto& [name, tmpl] : ports.config.sandbox.templates)
      pools.push_back(scheduler::pool_stream(name));
    return {.provider = host,
            .pools = std::move(pools),
            .read =
                [this](const core::StreamId& pool, auto answer) {
                  ports.loop.read(
                      pool, [answer = std::move(answer)](base::Result<shard::StreamRead> read) mutable {
                        if (!read || read->head == 0) return answer(nullptr);
                        const auto& state =
                            static_cast<const core::StateOf<scheduler::PoolState>&>(*read->state).value;
                        answer({std::move(read->state), &state});
                      });
                },
            .report = [this](const core::StreamId& pool,
                             scheduler::ReportLoss loss) { report(pool, std::move(loss)); },
            .wake = [this] { ports.loop.wake(); }};
  }

  void report(const core::StreamId& pool, scheduler::ReportLoss loss) {
    ports.loop.submit(
        {.target = pool, .command = core::make_command<scheduler::PoolDecider::Command>(std::move(loss))});
  }

  WorkPorts ports;
  workflow::Registry workflows;
  core::ActivityRegistry activities;
  // Of the loop's thread, once that runs.
  activities::effects::RemoteExecutor executor;
  const operations::EffectTools tools;
  operations::EffectOperations effects;

  sandbox_runtime::client::HostClient host;
  sandbox_runtime::manager::Reconciler reconciler;  // of the loop's thread
};

Work::Work(WorkPorts ports) : parts_(std::make_unique<Parts>(std::move(ports))) {
  Parts& parts = *parts_;
  register_hello(parts.workflows, parts.activities, parts.ports.runner);
  if (extra_work != nullptr) extra_work(parts.workflows, parts.activities, parts.ports.runner);
  activities::agent::register_agent(parts.workflows, std::make_shared<const activities::gateway::Gateway>(
                                                         activities::gateway::Gateway::with_built_ins()));
  activities::artifacts::register_artifact_activity(parts.activities, parts.ports.blobs, parts.ports.runner);
  sandbox_runtime::manager::register_sandbox_activities(
      parts.activities,
      std::make_shared<const sandbox_runtime::manager::ManagerParts>(sandbox_runtime::manager::ManagerParts{
          parts.host, parts.ports.blobs, parts.ports.runner, parts.ports.clock,
          parts.ports.config.sandbox.templates,
          [permitted = allowed_destinations(parts.ports.config)](const provider::AllowedDestination& asked) {
            return check_destination(permitted, asked);
          }}));
  register_schedules(parts.workflows, parts.activities, parts.ports.runner);
  parts.activities.add("schedule.run",
                       std::make_shared<ScheduledRuns>(parts.ports.loop, parts.ports.tenant_key));
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

base::Status Work::begin() {
  const Limits& limits = parts_->ports.config.limits;
  const std::int64_t lease_ms = parts_->ports.config.sandbox.lease_ms;
  auto status = give(parts_->ports.loop, scheduler::admission_stream(),
                     core::make_command<scheduler::AdmissionDecider::Command>(scheduler::ConfigureAdmission{
                         {.global = limits.sandboxes, .per_user = limits.sandboxes_per_user}}));
  for (const auto& [name, tmpl] : parts_->ports.config.sandbox.templates) {
    if (!status) return status;
    status = give(parts_->ports.loop, scheduler::pool_stream(name),
                  core::make_command<scheduler::PoolDecider::Command>(scheduler::ConfigurePool{
                      {.lease_ttl_ms = lease_ms, .answer_within_ms = lease_ms / 2}}));
  }
  return status;
}

void Work::attach_effect(base::UniqueFd socket) {
  parts_->executor.attach(std::move(socket));
}
void Work::poll() {
  parts_->effects.poll();
  parts_->reconciler.poll(parts_->ports.clock.monotonic_ns() / 1'000'000);
}
int Work::wake_fd() const {
  return parts_->executor.wake_fd();
}

void Work::fill_status(::sandglass::v1::StatusReply& status) const {
  const auto promise = std::make_shared<std::promise<base::Result<std::vector<provider::Feature>>>>();
  auto answer = promise->get_future();
  parts_->host.features([promise](base::Result<std::vector<provider::Feature>> features) {
    promise->set_value(std::move(features));
  });
  const auto add = [&](const std::string& name, std::string_view verdict, const std::string& detail) {
    auto& check = *status.add_checks();
    check.set_name(name);
    check.set_verdict(std::string(verdict));
    check.set_detail(detail);
  };
  if (answer.wait_for(kFeaturesWait) != std::future_status::ready) {
    return add("sandboxes", "missing", "the sandbox host does not answer; its log says why");
  }
  const auto features = answer.get();
  if (!features) return add("sandboxes", "missing", features.error().message);
  for (const auto& feature : *features) {
    add("sandbox " + feature.name, provider::name_of(feature.strength),
        feature.detail + (feature.remedy.empty() ? "" : "; " + feature.remedy));
  }
}

}  // namespace sandglass::engine::server::compose
