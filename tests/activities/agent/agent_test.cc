#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/activities/agent/agent_world.h"

namespace sandglass::activities::agent {
namespace {

using base::Code;
using engine::run::RunStatus;
using testing::HasSubstr;
using tests::MemoryProvider;

constexpr std::string_view kFixed = "total() { echo $(($1 * $2)); }\n";

/// Plays the example's commands: the tests look at shop.sh, sed repairs it.
tests::provider::ExecResult shop(MemoryProvider::Files& files, const tests::provider::ExecRequest& request) {
  std::string& program = files["project/shop.sh"].content;
  tests::provider::ExecResult result{.exit_code = 0};
  if (request.argv[0] == "sh") {
    const bool green = program == kFixed;
    result.out = green ? "total: ok\n0 failed\n" : "total: FAIL (expected 597, got 202)\n1 failed\n";
    result.exit_code = green ? 0 : 1;
  } else if (request.argv[0] == "sed") {
    program = kFixed;
  } else if (request.argv[0] == "false") {
    result.exit_code = 3;
    result.err = "looking\nno such thing\n";
  }
  return result;
}

std::string example() {
  const char* source = std::getenv("SANDGLASS_SOURCE");
  std::ostringstream text;
  text << std::ifstream(std::string(source == nullptr ? "." : source) +
                        "/examples/fix-failing-test/task.yaml")
              .rdbuf();
  return text.str();
}

struct Agent : testing::Test {
  void start_example(std::string program = "total() { echo $(($1 + $2)); }\n", bool evict = false,
                     std::uint32_t seed = 0) {
    world.start(example(), {world.store_tree({{"shop.sh", std::move(program)}, {"tests/run.sh", "…"}})},
                evict, seed);
  }
  void start_plan(const std::string& plan, const std::string& head = "") {
    world.start("name: t\n" + head + "\nplan:\n" + plan, {});
  }
  Code code() { return world.run->result() ? Code::ok : world.run->result().error().code; }
  std::string message() { return world.run->result() ? "" : world.run->result().error().message; }

  AgentWorld world{shop};
};

TEST_F(Agent, TheMainJobFixesTheTestAndOpensOnePullRequest) {
  start_example();
  world.run->play();
  ASSERT_TRUE(world.run->result()) << message();
  const Json result = *world.run->result();
  EXPECT_EQ(result["message"], "pull request 1 opened");
  ASSERT_EQ(world.pulls.size(), 1U);
  EXPECT_EQ(world.requests, 1);
  const Json body = Json::parse(world.pulls.begin()->second);
  EXPECT_THAT(body["diff"].get<std::string>(), HasSubstr("+total() { echo $(($1 * $2)); }"));
  EXPECT_EQ(body["diff_sha256"], base::sha256(body["diff"].get<std::string>()).hex());
  std::vector<std::string> names;
  for (const Json& artifact : result["artifacts"]) names.push_back(artifact["name"]);
  EXPECT_THAT(names, testing::ElementsAre("fix.diff", "test-result.txt", "test.log", "explanation.md"));
  EXPECT_EQ(result["artifacts"][0]["public_digest"], body["diff_sha256"]);
  EXPECT_EQ(world.run->check_replay(), "");
}

TEST_F(Agent, TheApprovalShowsWhatWillLeaveAndNoSandboxWaitsForIt) {  // H1, H2
  start_example();
  world.run->play();
  EXPECT_EQ(world.sandboxes_while_asking, 0U);
  EXPECT_EQ(world.returned, 1);
  const Json view = world.approval_view();
  EXPECT_EQ(view["tool"], "http_request");
  EXPECT_EQ(view["target"], "http://127.0.0.1:8099");
  EXPECT_EQ(view["arguments_digest"], world.approval.arguments.hash.hex());
  EXPECT_EQ(view["parts"][0]["public_digest"], base::sha256(world.pulls.begin()->second).hex());
  EXPECT_EQ(view["parts"][1]["name"], "fix.diff");
  EXPECT_EQ(view["parts"][1]["public_digest"], Json::parse(world.pulls.begin()->second)["diff_sha256"]);
  EXPECT_EQ(view["arguments"]["body"], world.pulls.begin()->second) << "shown = sent";
}

TEST_F(Agent, OnAGreenTreeThereIsNothingToDoAndNoEffect) {
  start_example(std::string(kFixed));
  world.run->play();
  ASSERT_TRUE(world.run->result()) << message();
  EXPECT_EQ((*world.run->result())["message"], "nothing to do");
  EXPECT_EQ(world.requests, 0);
  EXPECT_EQ(world.returned, 1);
}

TEST_F(Agent, TheSameHappensWhenEveryCoroutineIsForgottenAfterEveryEvent) {  // J32
  start_example();
  world.run->play();
  AgentWorld other{shop};
  other.start(example(),
              {other.store_tree({{"shop.sh", "total() { echo $(($1 + $2)); }\n"}, {"tests/run.sh", "…"}})},
              true);
  other.run->play();
  EXPECT_EQ(other.run->result(), world.run->result());
  EXPECT_EQ(other.pulls, world.pulls);
  EXPECT_EQ(other.run->events(), world.run->events());
}

TEST_F(Agent, AnApprovalForOtherArgumentsIsNeverUsed) {  // ADV-G7, FR-107
  world.decide = [](const core::ApprovalRequested&) {
    return core::ApprovalDecided{Code::ok, {base::sha256("something else")}};
  };
  start_example();
  world.run->play();
  EXPECT_EQ(code(), Code::approval_mismatch);
  EXPECT_EQ(world.requests, 0);
}

TEST_F(Agent, ADenialAndAnExpiryEndTheRunWithTheirOwnCodes) {  // ADV-G9
  for (const Code said : {Code::approval_denied, Code::approval_expired}) {
    AgentWorld other{shop};
    other.decide = [&](const core::ApprovalRequested& asked) {
      return core::ApprovalDecided{said, asked.arguments};
    };
    other.start(example(), {other.store_tree({{"shop.sh", "x"}, {"tests/run.sh", "…"}})});
    other.run->play();
    ASSERT_FALSE(other.run->result());
    EXPECT_EQ(other.run->result().error().code, said);
    EXPECT_THAT(other.run->result().error().message, HasSubstr("bob: because"));
    EXPECT_EQ(other.requests, 0);
    EXPECT_EQ(other.returned, 1);
  }
}

TEST_F(Agent, ACancelDuringAnyStepGivesTheSandboxBackAndSendsNothing) {  // A3
  const char* held[] = {"sandbox.put", "sandbox.exec", "sandbox.diff", "artifact.store"};
  for (const char* name : held) {
    AgentWorld other{shop};
    other.start(example(), {other.store_tree({{"shop.sh", "x"}, {"tests/run.sh", "…"}})});
    other.run->hold(name);
    other.run->play();
    ASSERT_EQ(other.run->status(), RunStatus::running) << name;
    ASSERT_TRUE(other.run->cancel());
    other.run->play();
    EXPECT_EQ(other.run->status(), RunStatus::cancelled) << name;
    EXPECT_EQ(other.returned, 1) << name;
    EXPECT_EQ(other.requests, 0) << name;
    EXPECT_EQ(other.run->check_replay(), "") << name;
  }
}

TEST_F(Agent, ACancelWhileAPersonIsAskedWithdrawsTheQuestion) {
  world.decide = nullptr;
  start_example();
  while (world.approval.tool.empty() && world.run->play_one()) {
  }
  EXPECT_EQ(world.run->state().phase, engine::run::Phase::waiting_for_approval);
  ASSERT_TRUE(world.run->cancel());
  world.run->play();
  EXPECT_EQ(world.run->status(), RunStatus::cancelled);
  EXPECT_EQ(world.withdrawn, 1);
  EXPECT_EQ(world.requests, 0);
}

TEST_F(Agent, AnEffectOfUnknownOutcomeIsProbedAndNotRepeated) {  // O2
  world.effect = [&](const core::Action& action, const Json& input) {
    world.post(action, input);
    return core::ActivityResult{
        .outcome = core::Outcome::unknown, .code = Code::executor_lost, .message = "lost"};
  };
  start_example();
  world.run->play();
  ASSERT_TRUE(world.run->result()) << message();
  EXPECT_EQ(world.requests, 1);
  EXPECT_EQ((*world.run->result())["message"], "pull request 1 opened");
}

TEST_F(Agent, ALostSandboxEndsTheRunAndIsNotTriedAgain) {  // J16
  start_plan("  - {name: a, exec: {argv: [rm]}}\n");
  world.memory.sandboxes.clear();
  world.run->raw_activity("sandbox.exec", [&](const core::Action& action, const Json& input) {
    world.memory.sandboxes.clear();
    return world.call("sandbox.exec", action, input);
  });
  world.run->play();
  EXPECT_EQ(code(), Code::sandbox_lost);
  EXPECT_EQ(std::ranges::count(world.memory.calls, "exec rm"), 1);
}

TEST_F(Agent, WhatIsRefusedIsRefusedBeforeAnythingHappens) {
  start_plan("  - {name: a, http_request: {method: POST, url: http://other.example/}}\n",
             "targets: [http://here.example]");
  world.run->play();
  EXPECT_EQ(code(), Code::policy_denied);
  EXPECT_THAT(message(), HasSubstr("http://other.example is not on the task's list"));
  EXPECT_EQ(world.claims, 0) << "no sandbox is claimed for a plan that needs none";

  AgentWorld invalid{shop};
  invalid.start("name: t\nparameters: {word: ls}\nplan:\n  - {name: a, exec: {argv: \"${param.word}\"}}\n",
                {});
  invalid.run->play();
  EXPECT_EQ(invalid.run->result().error().code, Code::arguments_invalid);
  EXPECT_THAT(invalid.run->result().error().message,
              HasSubstr("not executed: invalid input for exec: /argv"));
  EXPECT_EQ(std::ranges::count(invalid.memory.calls, "exec "), 0);
}

TEST_F(Agent, ACommandThatFailsEndsThePlanUnlessThePlanLooksAtIt) {
  start_plan("  - {name: a, exec: {argv: ['false']}}\n");
  world.run->play();
  EXPECT_EQ(code(), Code::step_failed);
  EXPECT_THAT(message(),
              HasSubstr("action \"a\": exit code 3; its error output ends with: looking\nno such thing; "
                        "write allow_failure"));
  EXPECT_EQ(world.returned, 1);
}

TEST_F(Agent, WhoGetsNoSandboxIsToldWhy) {
  world.refuse_claims = true;
  start_example();
  world.run->play();
  EXPECT_EQ(code(), Code::queue_timeout);
  EXPECT_EQ(world.returned, 0);
}

TEST_F(Agent, AnApproverIsNeverShownAPartThatIsNotSent) {  // H1
  start_plan(
      "  - {name: a, http_request: {method: POST, url: http://here.example/, body: real, show: {x: "
      "harmless}}}\n",
      "targets: [http://here.example]");
  world.run->play();
  EXPECT_EQ(code(), Code::arguments_invalid);
  EXPECT_THAT(message(), HasSubstr("the part \"x\" is not in the request's body"));
}

TEST_F(Agent, AnAnswerThatIsTooDeepToWalkIsATextOnly) {
  const std::string plan =
      "  - {name: a, http_request: {method: POST, url: http://here.example/, body: b}}\n"
      "  - {name: b, finish: {message: \"${a.body} ${a.json.0}\"}}\n";
  const std::string head = "targets: [http://here.example]\napprovals: {level_2: allow}";
  world.answer_body = "[7]";
  start_plan(plan, head);
  world.run->play();
  ASSERT_TRUE(world.run->result()) << message();
  EXPECT_EQ((*world.run->result())["message"], "[7] 7");

  AgentWorld deep{shop};
  deep.answer_body = std::string(60'000, '[') + std::string(60'000, ']');
  deep.start("name: t\n" + head + "\nplan:\n" + plan, {});
  deep.run->play();
  ASSERT_FALSE(deep.run->result());
  EXPECT_EQ(deep.run->result().error().code, Code::arguments_invalid);
  EXPECT_THAT(deep.run->result().error().message, HasSubstr("there is no value ${a.json.0}"));
  EXPECT_EQ(deep.run->check_replay(), "");
}

TEST_F(Agent, TheTasksTimeIsNotSpentByWaitingForPeople) {
  world.decide = [&](const core::ApprovalRequested& asked) {
    world.run->advance(20 * 60'000);  // twice the task's limit
    return core::ApprovalDecided{Code::ok, asked.arguments};
  };
  start_example();
  world.run->play();
  EXPECT_TRUE(world.run->result()) << message();
}

TEST_F(Agent, TheWayOutIsOpenedBeforeAnythingElseOrTheRunFails) {  // N2
  start_plan("  - {name: a, exec: {argv: [sed]}}\n",
             "parameters: {where: allowed.example.com}\nnetwork: [{host: \"${param.where}\", ports: [443]}]");
  world.run->play();
  EXPECT_TRUE(world.run->result()) << message();
  const auto& calls = world.memory.calls;
  const auto opened = std::ranges::find(calls, "allow");
  ASSERT_NE(opened, calls.end());
  EXPECT_LT(opened, std::ranges::find(calls, "exec sed"));
  EXPECT_EQ(world.run->check_replay(), "");
}

TEST_F(Agent, ADestinationThatTheOperatorDoesNotAllowFailsTheRunBeforeAnyCommand) {  // N2, V14
  start_plan("  - {name: a, exec: {argv: [sed]}}\n", "network: [{host: denied.example.com}]");
  world.run->play();
  EXPECT_EQ(code(), Code::policy_denied);
  EXPECT_EQ(std::ranges::count(world.memory.calls, "exec sed"), 0);
  EXPECT_EQ(world.returned, 1);
}

TEST_F(Agent, AMissingOutputFailsTheRun) {
  start_plan("  - {name: a, artifact: {name: x.txt, text: x}}\n", "outputs: [y.txt]");
  world.run->play();
  EXPECT_EQ(code(), Code::artifact_missing);
}

}  // namespace
}  // namespace sandglass::activities::agent
