#include "engine/core/ports/running.h"
#include "tests/support/run_bench.h"

namespace sandglass::tests {
namespace {

using base::Code;
using core::Outcome;

run::ScheduleStep step(const RunBench& bench, std::string path, run::StepOptions options = {}) {
  return {.path = std::move(path), .activity = "exec", .input = bench.json("{\"x\":1}"), .options = options};
}

TEST(RunStep, CompletionAndNextScheduleNeedNothingElse) {  // J9
  RunBench bench;
  ASSERT_TRUE(bench.start());
  EXPECT_TRUE(bench.activates);
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0")}));
  const core::Action first = bench.actions.at(0);
  EXPECT_EQ(first.token, (core::Token{1, 1, 2}));
  ASSERT_TRUE(bench.give(bench.finished(first)));
  EXPECT_TRUE(bench.activates);
  EXPECT_EQ(bench.newest.size(), 1U);
  EXPECT_TRUE(bench.state.steps.empty());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#1")}));
  EXPECT_EQ(bench.newest.size(), 1U);
  EXPECT_TRUE(bench.timers.empty());
  EXPECT_TRUE(run::RunDecider::in_flight(bench.state));
}

TEST(RunStep, CompletionIsRefusedUnlessItsTokenIsTheCurrentOne) {  // J8, FR-11
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0")}));
  const core::Action action = bench.actions.at(0);
  for (const auto& token :
       {core::Token{0, 1, 2}, core::Token{1, 2, 2}, core::Token{1, 1, 1}, core::Token{2, 1, 2}}) {
    core::ActionFinished late = bench.finished(action);
    late.token = token;
    EXPECT_EQ(bench.give(late).error().code, Code::stale_completion);
  }
  EXPECT_EQ(bench.give(core::ActionFinished{.path = "0/b#0"}).error().code, Code::stale_completion);
  ASSERT_TRUE(bench.give(bench.finished(action)));
  EXPECT_EQ(bench.give(bench.finished(action)).error().code, Code::stale_completion);
  EXPECT_EQ(bench.count<run::StepCompleted>(), 1U);
}

TEST(RunStep, RecoveryStartsOpenStepsAgainAndRefusesTheOldOwnersCompletion) {  // FR-26
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0")}));
  const core::Action old = bench.actions.at(0);
  const auto again = bench.recover();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].key, old.key);
  EXPECT_EQ(again[0].token, (core::Token{2, 1, 2}));
  EXPECT_EQ(bench.give(bench.finished(old)).error().code, Code::stale_completion);
  EXPECT_TRUE(bench.give(bench.finished(again[0])));
}

TEST(RunStep, AStepThatEndsTheProcessParksTheRunUntilItIsResumed) {  // J13, E14
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0"), step(bench, "0/b#0")}));
  ASSERT_EQ(bench.actions.size(), 2U);
  const core::Action culprit = bench.actions.at(0);
  const core::Action other = bench.actions.at(1);
  ASSERT_TRUE(bench.give(bench.failed(culprit, core::kCrashesCode, false)));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_EQ(bench.state.stuck.path, "0/a#0");
  EXPECT_EQ(bench.count<run::StepFailed>(), 0U) << "the step has not failed";
  ASSERT_TRUE(bench.give(bench.failed(other, core::kCrashesCode, false)));
  EXPECT_EQ(bench.state.stuck.path, "0/a#0") << "the first one is named";
  EXPECT_TRUE(bench.recover().empty()) << "a restart runs it again";
  ASSERT_TRUE(bench.give(run::Resume{}));
  EXPECT_EQ(bench.state.status, run::RunStatus::running);
  ASSERT_EQ(bench.actions.size(), 2U) << "what had not ended is started again";
  ASSERT_TRUE(bench.give(bench.finished(bench.actions.at(0))));
  EXPECT_EQ(bench.count<run::StepCompleted>(), 1U);
}

TEST(RunStep, FailedAttemptIsOneRecordAndADurableTimer) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0", {.retry = {.max_attempts = 2, .jitter = 0}})}));
  const core::Action first = bench.actions.at(0);
  ASSERT_TRUE(bench.give(bench.failed(first, Code::step_failed, true)));
  EXPECT_EQ(bench.newest.size(), 1U);
  EXPECT_FALSE(bench.activates);
  ASSERT_EQ(bench.timers.size(), 1U);
  EXPECT_EQ(bench.timers.begin()->first, bench.now_ms + 1000);
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));  // parked until then
  EXPECT_EQ(bench.give(bench.finished(first)).error().code, Code::stale_completion);
  bench.pass_time(bench.now_ms + 1000);
  const core::Action second = bench.actions.at(0);
  EXPECT_EQ(second.token.attempt, 2U);
  EXPECT_EQ(second.key, first.key);
  ASSERT_TRUE(bench.give(bench.failed(second, Code::step_timed_out, true)));
  ASSERT_NE(bench.last<run::StepFailed>(), nullptr);
  EXPECT_EQ(bench.last<run::StepFailed>()->code, Code::step_timed_out);
  EXPECT_TRUE(bench.activates);
}

TEST(RunStep, WhatMayNotBeRetriedFailsAtOnce) {  // FR-68, J16
  for (const auto& [code, retryable, attempts] : {std::tuple{Code::step_failed, false, 5U},
                                                  {Code::step_failed, true, 1U},
                                                  {Code::sandbox_lost, true, 5U}}) {
    RunBench bench;
    ASSERT_TRUE(bench.start());
    ASSERT_TRUE(bench.apply({step(bench, "0/a#0", {.retry = {.max_attempts = attempts}})}));
    ASSERT_TRUE(bench.give(bench.failed(bench.actions.at(0), code, retryable)));
    EXPECT_EQ(bench.count<run::StepFailed>(), 1U);
    EXPECT_TRUE(bench.activates);
  }
}

TEST(RunStep, APolicyNamesFailuresThatAreFinal) {  // E4
  struct Case {
    std::vector<std::string> non_retryable;
    Code code;
    std::string type;
    bool final;
  };
  for (const Case& one : {Case{{}, Code::step_failed, "CardDeclined", false},
                          {{"CardDeclined"}, Code::step_failed, "CardDeclined", true},
                          {{"CardDeclined"}, Code::step_failed, "Busy", false},
                          {{"CardDeclined"}, Code::step_failed, "", false},
                          {{"Busy", "worker_lost"}, Code::worker_lost, "", true},
                          {{"worker_lost"}, Code::step_timed_out, "", false}}) {
    RunBench bench;
    ASSERT_TRUE(bench.start());
    ASSERT_TRUE(bench.apply(
        {step(bench, "0/a#0", {.retry = {.max_attempts = 5}, .non_retryable = one.non_retryable})}));
    auto failed = bench.failed(bench.actions.at(0), one.code, true);
    failed.type = one.type;
    ASSERT_TRUE(bench.give(failed));
    EXPECT_EQ(bench.count<run::StepFailed>() == 1, one.final) << one.type;
    EXPECT_EQ(bench.count<run::StepAttemptFailed>() == 0, one.final) << one.type;
  }
}

TEST(RunStep, AnAttemptSaysWhatItsWorkersMustKnow) {  // E4, E13
  RunBench bench;
  ASSERT_TRUE(bench.start());
  const run::StepOptions options{.retry = {.max_attempts = 2, .jitter = 0},
                                 .start_to_close_ms = 7000,
                                 .schedule_to_close_ms = 60'000,
                                 .schedule_to_start_ms = 5000,
                                 .heartbeat_ms = 300,
                                 .queue = "gpu",
                                 .priority = 3};
  const std::int64_t scheduled_ms = bench.now_ms;
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0", options)}));
  const core::Action first = bench.actions.at(0);
  EXPECT_EQ(first.queue, "gpu");
  EXPECT_EQ(first.tenant, "t");
  EXPECT_EQ(first.priority, 3);
  EXPECT_EQ(first.scheduled_ms, scheduled_ms);
  EXPECT_EQ(first.schedule_to_start_ms, 5000);
  EXPECT_EQ(first.heartbeat_ms, 300);
  EXPECT_EQ(first.close_by_ms, scheduled_ms + 60'000);
  ASSERT_TRUE(bench.give(bench.failed(first, Code::worker_lost, true)));
  bench.pass_time(bench.now_ms + 1000);
  const core::Action second = bench.actions.at(0);
  EXPECT_EQ(second.scheduled_ms, scheduled_ms + 1000) << "each attempt waits anew";
  EXPECT_EQ(second.close_by_ms, first.close_by_ms) << "all attempts together have one end";
  const auto recovered = bench.recover();
  ASSERT_EQ(recovered.size(), 1U);
  EXPECT_EQ(recovered[0].scheduled_ms, second.scheduled_ms) << "and a restart does not begin the wait again";
}

TEST(RunStep, TheLastProgressReachesTheNextAttempts) {  // E4, FR-59
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0", {.retry = {.max_attempts = 3, .jitter = 0}})}));
  EXPECT_TRUE(bench.actions.at(0).progress.empty());
  auto failed = bench.failed(bench.actions.at(0), Code::step_failed, true);
  failed.progress = bench.json("100");
  ASSERT_TRUE(bench.give(failed));
  const core::PayloadRef told = bench.last<run::StepAttemptFailed>()->progress;
  EXPECT_EQ(told.digest, bench.json("100").digest);
  EXPECT_EQ(bench.slots.at(told.slot)->bytes, "100");
  bench.pass_time(bench.now_ms + 1000);
  EXPECT_EQ(bench.actions.at(0).progress, told);
  ASSERT_TRUE(bench.give(bench.failed(bench.actions.at(0), Code::worker_lost, true)));
  bench.pass_time(bench.now_ms + 2000);
  EXPECT_EQ(bench.actions.at(0).progress, told) << "an attempt that told nothing takes nothing away";
}

TEST(RunStep, AnAnswerWithReceiptIsSettledOnceItIsRecordedAndOnlyThen) {  // J5, J8
  for (const bool done : {true, false}) {
    RunBench bench;
    ASSERT_TRUE(bench.start());
    ASSERT_TRUE(bench.apply({step(bench, "0/a#0", {.retry = {.max_attempts = 9}})}));
    const core::Action action = bench.actions.at(0);
    auto answer = done ? bench.finished(action) : bench.failed(action, Code::step_failed, true);
    answer.receipt = true;
    ASSERT_TRUE(bench.give(answer));
    ASSERT_EQ(bench.actions.size(), 1U);
    EXPECT_EQ(bench.actions[0].kind, core::ActionKind::settled);
    EXPECT_EQ(bench.actions[0].token, action.token);
    EXPECT_EQ(bench.give(answer).error().code, Code::stale_completion);
  }
}

TEST(RunStep, NoAttemptStartsAfterTheStepsOwnLimit) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  const run::StepOptions options{.retry = {.max_attempts = 0, .initial_interval_ms = 4000, .jitter = 0},
                                 .start_to_close_ms = 60'000,
                                 .schedule_to_close_ms = 10'000};
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0", options)}));
  EXPECT_EQ(bench.actions.at(0).start_to_close_ms, 10'000);
  ASSERT_TRUE(bench.give(bench.failed(bench.actions.at(0), Code::step_failed, true)));
  bench.pass_time(bench.now_ms + 4000);
  EXPECT_EQ(bench.actions.at(0).start_to_close_ms, 6000);
  bench.now_ms += 2000;  // the next delay of 8 s would end after the limit
  ASSERT_TRUE(bench.give(bench.failed(bench.actions.at(0), Code::step_failed, true)));
  EXPECT_EQ(bench.count<run::StepFailed>(), 1U);
}

TEST(RunStep, ResultThatIsTooLargeFailsTheStep) {  // FR-80
  for (const auto& [size, fits] : {std::pair{run::kMaxPayloadBytes - 1, true},
                                   {run::kMaxPayloadBytes, true},
                                   {run::kMaxPayloadBytes + 1, false}}) {
    RunBench bench;
    ASSERT_TRUE(bench.start());
    ASSERT_TRUE(bench.apply({step(bench, "0/a#0")}));
    ASSERT_TRUE(bench.give(bench.finished(bench.actions.at(0), Outcome::done, std::string(size, 'x'))));
    EXPECT_EQ(bench.count<run::StepCompleted>() == 1, fits) << size;
    EXPECT_TRUE(bench.activates);
  }
}

TEST(RunStep, CancelEndsItInEveryStateAndIsNoErrorAfterItsEnd) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({step(bench, "0/a#0", {.retry = {.max_attempts = 9}}), step(bench, "0/b#0")}));
  const auto started = bench.actions;
  ASSERT_TRUE(bench.give(bench.failed(started.at(0), Code::step_failed, true)));
  ASSERT_TRUE(bench.apply({run::CancelStep{"0/a#0"}, run::CancelStep{"0/b#0"}, run::CancelStep{"0/c#0"}}));
  EXPECT_TRUE(bench.timers.empty());
  ASSERT_EQ(bench.actions.size(), 1U);
  EXPECT_EQ(bench.actions[0].kind, core::ActionKind::cancel);
  EXPECT_EQ(bench.actions[0].token, started.at(1).token);
  EXPECT_EQ(bench.give(bench.finished(started.at(1))).error().code, Code::stale_completion);
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
}

}  // namespace
}  // namespace sandglass::tests
