#include "tests/support/run_bench.h"

namespace sandglass::tests {
namespace {

using base::Code;
using core::ActionKind;
using core::Outcome;

constexpr auto kPath = "0/send#0";
const core::StreamId kInbox = core::StreamId::named(core::StreamKind::approvals, "");

run::OperationOptions options(run::Recovery recovery) {
  return {.retry = {.max_attempts = 3, .jitter = 0},
          .recovery = recovery,
          .probe = "http.probe",
          .permit_ms = 10'000,
          .attempt_timeout_ms = 30'000,
          .settle_ms = 5000};
}

/// A run whose operation is intended: its effect is out.
class RunOperation : public ::testing::Test {
 protected:
  core::Action effect(run::Recovery recovery) {
    EXPECT_TRUE(bench.start());
    EXPECT_TRUE(bench.apply(
        {run::ScheduleOperation{kPath, "http", bench.json("{\"amount\":1}"), options(recovery)}}));
    EXPECT_EQ(bench.actions.at(0).kind, ActionKind::reserve);
    EXPECT_EQ(bench.count<run::OperationIntended>(), 0U);  // waiting needs no permit
    return intend(bench.actions.at(0));
  }
  core::Action intend(const core::Action& reserve) {
    EXPECT_EQ(reserve.kind, ActionKind::reserve);
    EXPECT_TRUE(bench.give(bench.finished(reserve)));
    const core::Action action = bench.actions.at(0);
    EXPECT_EQ(action.kind, ActionKind::effect);
    EXPECT_EQ(action.permit_ms, 10'000);
    EXPECT_EQ(action.start_to_close_ms, 30'000);
    return action;
  }
  const run::Operation& operation() const { return bench.state.operations.at(kPath); }

  RunBench bench;
};

TEST_F(RunOperation, IntentIsRecordedBeforeTheEffectAndOutcomeAfterIt) {  // O1
  const core::Action action = effect(run::Recovery::probe);
  EXPECT_EQ(bench.last<run::OperationIntended>()->key, action.key);
  EXPECT_EQ(action.key, run::operation_key(bench.stream.text(), kPath, 0));
  ASSERT_TRUE(bench.give(bench.finished(action, Outcome::done, "{\"id\":1}")));
  EXPECT_TRUE(bench.activates);
  EXPECT_EQ(bench.last<run::OperationSettled>()->outcome, Outcome::done);
  EXPECT_TRUE(bench.state.operations.empty());
  EXPECT_EQ(bench.give(bench.finished(action)).error().code, Code::stale_completion);
}

TEST_F(RunOperation, CertainFailureIsRetriedUnderTheSameKeyUntilAttemptsAreUsedUp) {  // FR-2, FR-3
  core::Action action = effect(run::Recovery::ask);
  const std::string key = action.key;
  for (int attempt = 1; attempt < 3; ++attempt) {
    ASSERT_TRUE(bench.give(bench.failed(action, Code::connect_failed, true)));
    EXPECT_EQ(operation().status, run::OperationStatus::backoff);
    bench.pass_time(bench.now_ms + 60'000);
    action = intend(bench.actions.at(0));
    EXPECT_EQ(action.key, key);
    EXPECT_EQ(action.token.attempt, static_cast<std::uint32_t>(attempt + 1));
  }
  ASSERT_TRUE(bench.give(bench.failed(action, Code::connect_failed, true)));
  EXPECT_EQ(bench.last<run::OperationSettled>()->outcome, Outcome::not_done);
  EXPECT_EQ(bench.last<run::OperationSettled>()->code, Code::connect_failed);
}

TEST_F(RunOperation, UnknownOutcomeIsProbedAndDoneCountsAtOnce) {
  const core::Action action = effect(run::Recovery::probe);
  ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
  const core::Action probe = bench.actions.at(0);
  EXPECT_EQ(probe.kind, ActionKind::start);
  EXPECT_EQ(probe.name, "http.probe");
  EXPECT_EQ(probe.key, action.key);
  EXPECT_EQ(bench.give(bench.finished(action)).error().code, Code::stale_completion);
  ASSERT_TRUE(bench.give(bench.finished(probe, Outcome::done, "{\"id\":1}")));
  EXPECT_EQ(bench.last<run::OperationSettled>()->outcome, Outcome::done);
  EXPECT_EQ(bench.count<run::OperationIntended>(), 1U);
}

TEST_F(RunOperation, NotDoneIsBelievedOnlyWhenNoOldExecutorCanBeAtWork) {  // J16
  const core::Action action = effect(run::Recovery::probe);
  bench.now_ms += 100;
  ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
  core::Action probe = bench.actions.at(0);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(bench.give(bench.failed(probe, Code::effect_not_done, false)));
    ASSERT_EQ(operation().status, run::OperationStatus::probe_wait);
    ASSERT_EQ(bench.count<run::OperationAttemptFailed>(), 0U);
    const std::int64_t due = bench.timers.begin()->first;
    EXPECT_GT(due, bench.now_ms);
    EXPECT_LE(due, bench.now_ms + 1000);
    // The record's time is the wall clock's: a step of a day must not make the next answer credible.
    bench.pass_time(due + 86'400'000);
    probe = bench.actions.at(0);
  }
  ASSERT_TRUE(bench.give(bench.failed(probe, Code::effect_not_done, true)));
  EXPECT_EQ(bench.count<run::OperationAttemptFailed>(), 1U);  // sent once more (FR-4)
  bench.pass_time(bench.now_ms + 1000);
  const core::Action again = intend(bench.actions.at(0));
  EXPECT_EQ(again.key, action.key);
}

TEST_F(RunOperation, IntentOfAnEarlierOwnerIsNeverPerformedAgainButReconciled) {  // O2
  const core::Action action = effect(run::Recovery::probe);
  const auto pending = bench.recover();
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].kind, ActionKind::reserve);
  EXPECT_EQ(bench.give(bench.finished(action)).error().code,
            Code::stale_completion);  // the old owner's outcome
  bench.now_ms += 500;
  ASSERT_TRUE(bench.give(bench.finished(pending[0])));
  EXPECT_EQ(bench.last<run::OperationUnknown>()->code, Code::executor_lost);
  EXPECT_EQ(operation().unknown_since_ms, bench.now_ms);
  ASSERT_EQ(bench.actions.size(), 2U);
  EXPECT_EQ(bench.actions[0].kind, ActionKind::cancel);  // the place is not needed
  EXPECT_EQ(bench.actions[0].token, pending[0].token);
  const core::Action probe = bench.actions[1];
  EXPECT_EQ(probe.kind, ActionKind::start);
  const auto second = bench.recover();  // and again, while it probes
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].path, probe.path);
  ASSERT_TRUE(bench.give(bench.finished(second[0])));
  EXPECT_EQ(bench.last<run::OperationSettled>()->outcome, Outcome::done);
}

TEST_F(RunOperation, ResendKeepsTheDoubtUntilTheTargetAnswers) {
  core::Action action = effect(run::Recovery::resend);
  ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
  EXPECT_EQ(operation().status, run::OperationStatus::backoff);
  bench.pass_time(bench.now_ms + 5000);
  action = intend(bench.actions.at(0));
  // Says nothing about the first attempt: still in doubt, hence sent again and not given up as "not done".
  ASSERT_TRUE(bench.give(bench.failed(action, Code::connect_failed, true)));
  EXPECT_EQ(bench.count<run::OperationUnknown>(), 2U);
  bench.pass_time(bench.now_ms + 60'000);
  action = intend(bench.actions.at(0));
  ASSERT_TRUE(bench.give(bench.failed(action, Code::connect_failed, true)));
  EXPECT_EQ(operation().status, run::OperationStatus::asking);  // attempts used up: a person is asked
}

TEST_F(RunOperation, AskIsNeverSentAgainByItself) {
  const core::Action action = effect(run::Recovery::ask);
  ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
  EXPECT_EQ(operation().status, run::OperationStatus::asking);
  EXPECT_TRUE(bench.timers.empty());
  EXPECT_TRUE(bench.actions.empty());
  ASSERT_EQ(bench.messages.size(), 1U);
  const core::Message& question = bench.messages.at(0);
  EXPECT_EQ(question.target, kInbox);
  EXPECT_EQ(question.correlation, run::question_path(kPath, 1));
  const auto& asked = std::get<core::OutcomeAsked>(question.body);
  EXPECT_EQ(asked.path, kPath);
  EXPECT_EQ(asked.key, action.key);
  EXPECT_EQ(asked.code, Code::timed_out);
  EXPECT_EQ(asked.input, operation().input);
  EXPECT_EQ(asked.sent_ms, bench.now_ms);
  EXPECT_TRUE(bench.recover().empty());
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
}

TEST_F(RunOperation, APersonsWordIsTakenOnceAndOnlyAboutTheAttemptThatIsInDoubt) {
  for (const auto verdict :
       {core::OutcomeVerdict::done, core::OutcomeVerdict::not_done, core::OutcomeVerdict::again}) {
    bench = RunBench{};
    const core::Action action = effect(run::Recovery::ask);
    const auto said = [&](std::uint32_t attempt, core::ContentDigest arguments,
                          const core::StreamId& source = kInbox) {
      core::MessageReceived word;
      word.message = {.source = source,
                      .target = bench.stream,
                      .correlation = run::question_path(kPath, attempt),
                      .body = core::OutcomeDecided{arguments, verdict, "ann"},
                      .payload = bench.json("7")};
      return word;
    };
    const core::ContentDigest arguments = operation().input.digest;
    EXPECT_EQ(bench.give(said(1, arguments)).error().code,
              Code::stale_completion);  // nothing is in doubt yet
    ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
    EXPECT_FALSE(bench.give(said(2, arguments)));
    EXPECT_FALSE(bench.give(said(1, {base::sha256("other")})));
    EXPECT_FALSE(bench.give(said(1, arguments, bench.stream)));
    ASSERT_TRUE(bench.give(said(1, arguments)));
    const auto reserve = bench.actions;
    EXPECT_FALSE(bench.give(said(1, arguments)));
    EXPECT_EQ(bench.count<run::OperationDecided>(), 1U);
    if (verdict == core::OutcomeVerdict::again) {
      const core::Action again = intend(reserve.at(0));
      EXPECT_EQ(again.key, run::operation_key(bench.stream.text(), kPath, 1));
      EXPECT_NE(again.key, action.key);
      ASSERT_TRUE(bench.give(bench.failed(again, Code::timed_out, true, Outcome::unknown)));
      EXPECT_EQ(bench.messages.at(0).correlation, run::question_path(kPath, 2)) << "a new question";
    } else {
      EXPECT_EQ(bench.last<run::OperationSettled>()->outcome,
                verdict == core::OutcomeVerdict::done ? Outcome::done : Outcome::not_done);
    }
  }
}

TEST_F(RunOperation, AQuestionIsTakenBackWhenTheOperationOrTheRunEndsOtherwise) {
  for (const bool terminate : {false, true}) {
    bench = RunBench{};
    const core::Action action = effect(run::Recovery::ask);
    ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
    if (terminate) {
      ASSERT_TRUE(bench.give(run::Terminate{"now"}));
    } else {
      ASSERT_TRUE(bench.apply({run::CancelOperation{kPath}}));
    }
    ASSERT_EQ(bench.messages.size(), 1U);
    EXPECT_TRUE(std::holds_alternative<core::ApprovalWithdrawn>(bench.messages.at(0).body));
    EXPECT_EQ(bench.messages.at(0).correlation, run::question_path(kPath, 1));
    EXPECT_EQ(bench.messages.at(0).closing, terminate);
  }
}

TEST_F(RunOperation, ProbeThatKeepsFailingEndsInAQuestion) {
  const core::Action action = effect(run::Recovery::probe);
  ASSERT_TRUE(bench.give(bench.failed(action, Code::timed_out, true, Outcome::unknown)));
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(operation().status, run::OperationStatus::probing);
    ASSERT_TRUE(bench.give(bench.failed(bench.actions.at(0), Code::connect_failed, true)));
    if (i < 7) bench.pass_time(bench.timers.begin()->first);
  }
  EXPECT_EQ(operation().status, run::OperationStatus::asking);
  EXPECT_TRUE(std::holds_alternative<core::OutcomeAsked>(bench.messages.at(0).body));
}

TEST_F(RunOperation, CancelEndsWhatIsNotOutAndWaitsForWhatIs) {
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(
      bench.apply({run::ScheduleOperation{kPath, "http", bench.json("1"), options(run::Recovery::ask)}}));
  const core::Action reserve = bench.actions.at(0);
  ASSERT_TRUE(bench.apply({run::CancelOperation{kPath}}));
  EXPECT_EQ(bench.actions.at(0).kind, ActionKind::cancel);
  EXPECT_EQ(bench.give(bench.finished(reserve)).error().code, Code::stale_completion);
  EXPECT_EQ(bench.count<run::OperationSettled>(), 0U);  // the workflow sees it in a turn of its own
  bench.pass_time(bench.now_ms);
  EXPECT_EQ(bench.last<run::OperationSettled>()->code, Code::cancelled);
  EXPECT_TRUE(bench.activates);

  bench = RunBench{};
  const core::Action action = effect(run::Recovery::ask);
  ASSERT_TRUE(bench.apply({run::CancelOperation{kPath}}));
  EXPECT_TRUE(bench.timers.empty());
  ASSERT_TRUE(bench.give(bench.failed(action, Code::connect_failed, true)));
  EXPECT_EQ(bench.last<run::OperationSettled>()->outcome, Outcome::not_done);  // no retry after a cancel
}

TEST_F(RunOperation, TheSameKeyWithOtherArgumentsIsAConflictAndSendsNothing) {  // O3, FR-13
  const core::Action action = effect(run::Recovery::ask);
  ASSERT_TRUE(bench.give(bench.finished(action)));
  ASSERT_TRUE(bench.apply({run::ScheduleOperation{kPath, "http", bench.json("{\"amount\":2}"), {}}}));
  EXPECT_TRUE(bench.actions.empty());
  bench.pass_time(bench.now_ms);
  EXPECT_EQ(bench.last<run::OperationSettled>()->code, Code::operation_conflict);
}

TEST_F(RunOperation, TerminateNamesWhatIsInDoubt) {
  effect(run::Recovery::ask);
  ASSERT_TRUE(bench.give(run::Terminate{"now"}));
  EXPECT_EQ(bench.last<run::RunTerminated>()->abandoned, std::vector<std::string>{kPath});
}

}  // namespace
}  // namespace sandglass::tests
