// Workflow "agent" against the run decider, with sandboxes in memory, the real sandbox and artifact
// activities, the real HTTP tool, and a receiver that counts. Leases and approvals are answered by the test's
// peer.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "activities/agent/agent.h"
#include "activities/agent/agent_run.h"
#include "activities/artifacts/artifacts.h"
#include "activities/gateway/http_tool.h"
#include "engine/blob/memory/store.h"
#include "engine/codec/tree.h"
#include "engine/workflow/testing.h"
#include "sandbox-runtime/manager/manager.h"
#include "tests/support/memory_provider.h"

namespace sandglass::activities::agent {

namespace manager = sandbox_runtime::manager;

struct InlineRunner final : base::TaskRunner {
  void run(std::move_only_function<void()> closure) override { closure(); }
};
struct StillClock final : base::Clock {
  base::WallMs wall_ms() const override { return 0; }
  base::MonotonicNs monotonic_ns() const override { return 0; }
};

class AgentWorld {
 public:
  explicit AgentWorld(tests::MemoryProvider::Command command) : memory(std::move(command)) {
    manager::register_sandbox_activities(
        activities, std::make_shared<const manager::ManagerParts>(manager::ManagerParts{
                        memory,
                        blobs,
                        runner,
                        clock,
                        {{"default", tests::provider::Template{}}},
                        [](const tests::provider::AllowedDestination& asked) {
                          return asked.host == "allowed.example.com"
                                     ? base::Status()
                                     : base::fail(base::Code::policy_denied, "not " + asked.host);
                        }}));
    artifacts::register_artifact_activity(activities, blobs, runner);
    register_agent(workflows, std::make_shared<const gateway::Gateway>(gateway::Gateway::with_built_ins()));
  }

  std::string store_tree(const std::map<std::string, std::string>& files) {
    engine::codec::Tree tree;
    for (const auto& [path, content] : files) {
      tree.entries.push_back(
          {.path = path, .size = content.size(), .digest = blobs.put("test tenant", content)->hash});
    }
    return blobs.put("test tenant", engine::codec::encode_tree(tree).value())->hash.hex();
  }

  /// Begins the run; `play()` goes on from there.
  void start(std::string_view yaml, const std::vector<std::string>& trees, bool evict = false,
             std::uint32_t seed = 0) {
    const auto task = taskfile::parse_task_yaml(yaml, "task.yaml");
    ASSERT_TRUE(task) << task.error().message;
    const auto input = taskfile::make_run_input(*task, trees);
    ASSERT_TRUE(input) << input.error().message;
    run.emplace(
        workflows,
        workflow::TestRunOptions{
            .workflow = "agent", .input = Json::parse(*input), .seed = seed, .evict_everything = evict});
    for (const char* name : {"sandbox.network", "sandbox.put", "sandbox.exec", "sandbox.put_file",
                             "sandbox.get_file", "sandbox.list", "sandbox.diff", "artifact.store"}) {
      run->raw_activity(name, [this, name](const core::Action& action, const Json& input) {
        return call(name, action, input);
      });
    }
    run->raw_activity("http_request", [this](const core::Action& action, const Json& input) {
      return effect ? effect(action, input) : post(action, input);
    });
    run->raw_activity("http_request.probe",
                      [this](const core::Action& action, const Json& input) { return probe(action, input); });
    run->on_message([this](const core::Message& message) { answer(message); });
  }

  core::ActivityResult call(const std::string& name, const core::Action& action, const Json& input) {
    std::optional<core::ActivityResult> result;
    core::ActivityCall made{.name = name, .path = action.path, .key = action.key, .token = action.token};
    made.input = std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, input.dump()});
    made.start_to_close_ms = action.start_to_close_ms;
    activities.find(name)->start(std::move(made),
                                 [&](core::ActivityResult answered) { result = std::move(answered); });
    return *result;
  }

  /// The receiver: one pull request a key.
  core::ActivityResult post(const core::Action& action, const Json& input) {
    const auto intent = gateway::HttpTool().intent(input.dump(), action.key);
    EXPECT_TRUE(intent);
    ++requests;
    pulls.emplace(action.key, intent->body);
    return gateway::HttpTool().outcome(
        {.http_status = 201,
         .body = answer_body.empty() ? "{\"number\":" + std::to_string(pulls.size()) + "}" : answer_body});
  }
  core::ActivityResult probe(const core::Action& action, const Json&) {
    const bool known = pulls.contains(action.key);
    return gateway::HttpTool().probe_outcome({.http_status = known ? 200U : 404U, .body = R"({"number":1})"});
  }

  void answer(const core::Message& message) {
    const core::StreamId pool = core::StreamId::named(core::StreamKind::pool, "default");
    if (const auto* wanted = std::get_if<core::LeaseRequested>(&message.body)) {
      ++claims;
      if (refuse_claims) {
        run->deliver(message.target, message.correlation,
                     core::LeaseRefused{base::Code::queue_timeout, "full"});
        return;
      }
      memory.sandboxes["sb-1"].fence = 5;
      run->deliver(pool, message.correlation,
                   core::LeaseGranted{.sandbox = "sb-1", .token = 5, .provider = wanted->template_name});
    } else if (std::holds_alternative<core::LeaseReturned>(message.body)) {
      ++returned;
      memory.sandboxes.clear();
      run->deliver(pool, message.correlation, core::LeaseEnded{.sandbox = "sb-1", .token = 5});
    } else if (const auto* asked = std::get_if<core::ApprovalRequested>(&message.body)) {
      approval = *asked;
      approval_request = message;
      sandboxes_while_asking = memory.sandboxes.size();
      if (decide)
        run->deliver(message.target, message.correlation, decide(*asked),
                     {{"who", "bob"}, {"why", "because"}});
    } else if (std::holds_alternative<core::ApprovalWithdrawn>(message.body)) {
      ++withdrawn;
    }
  }
  Json approval_view() const { return Json::parse(approval_request.payload.slot->bytes); }

  tests::MemoryProvider memory;
  engine::blob::MemoryBlobStore blobs;
  InlineRunner runner;
  StillClock clock;
  core::ActivityRegistry activities;
  engine::workflow::Registry workflows;
  std::optional<workflow::TestRun> run;
  std::function<core::ApprovalDecided(const core::ApprovalRequested&)> decide =
      [](const core::ApprovalRequested& asked) {
        return core::ApprovalDecided{base::Code::ok, asked.arguments};
      };
  std::function<core::ActivityResult(const core::Action&, const Json&)> effect;
  std::map<std::string, std::string> pulls;  // body by key
  std::string answer_body;                   // of the receiver; empty: the number of the pull request
  core::ApprovalRequested approval;
  core::Message approval_request;
  bool refuse_claims = false;
  int requests = 0, claims = 0, returned = 0, withdrawn = 0;
  std::size_t sandboxes_while_asking = 99;
};

}  // namespace sandglass::activities::agent
