#include "tests/support/run_bench.h"

namespace sandglass::tests {
namespace {

using base::Code;

const core::StreamId kAdmission = core::StreamId::named(core::StreamKind::admission, "");
const core::StreamId kPool = core::StreamId::named(core::StreamKind::pool, "p");
const core::StreamId kApprovals = core::StreamId::named(core::StreamKind::approvals, "t");

core::MessageReceived message(const core::StreamId& source, std::string correlation, core::MessageBody body) {
  core::Message made;
  made.source = source;
  made.correlation = std::move(correlation);
  made.body = std::move(body);
  return {std::move(made)};
}

/// A run with one of everything open.
void open_everything(RunBench& bench) {
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply(
      {run::ScheduleStep{"0/step#0", "exec", bench.json("{}"), {}},
       run::ScheduleStep{"0/retried#0", "exec", bench.json("{}"), {.retry = {.max_attempts = 9}}},
       run::StartTimer{"0/sleep#0", bench.now_ms + 60'000},
       run::OpenExchange{"0/lease#0", kAdmission, core::LeaseRequested{.template_name = "default"}, {}},
       run::OpenExchange{"0/lease#1", kAdmission, core::LeaseRequested{.template_name = "default"}, {}},
       run::OpenExchange{"0/approve#0", kApprovals, core::ApprovalRequested{.tenant = "t"}, bench.json("{}")},
       run::ScheduleOperation{"0/send#0", "http", bench.json("{}"), {}}}));
  core::Action retried;
  for (const auto& action : bench.actions) {
    if (action.path == "0/retried#0") retried = action;
  }
  ASSERT_TRUE(bench.give(bench.failed(retried, Code::step_failed, true)));
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#0", core::LeaseGranted{.sandbox = "sb", .token = 7})));
  ASSERT_TRUE(bench.give(run::Signal{"hello", bench.json("1")}));
}

TEST(RunLifecycle, StartIsDecidedOnceAndTheSameStartAttaches) {  // FR-9, FR-16
  RunBench bench;
  ASSERT_TRUE(bench.start("{\"a\":1}"));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(bench.start("{\"a\":1}"));
  EXPECT_EQ(bench.start("{\"a\":2}").error().code, Code::run_exists);
  EXPECT_EQ(bench.count<run::RunStarted>(), 1U);
  ASSERT_TRUE(bench.apply({run::CompleteRun{bench.json("1")}}));
  EXPECT_TRUE(bench.start("{\"a\":1}"));
  EXPECT_EQ(bench.count<run::RunStarted>(), 1U);
}

TEST(RunLifecycle,
     EveryEndLeavesTheSameNothingBehind) {  // FR-67, FR-10: the end is one event, and recovery does nothing
  for (const int way : {0, 1, 2, 3}) {
    RunBench bench;
    open_everything(bench);
    if (way == 3) {
      ASSERT_TRUE(bench.give(run::Terminate{"enough"}));
    } else {
      if (way == 2) ASSERT_TRUE(bench.give(run::Cancel{"stop"}));
      ASSERT_TRUE(bench.apply({run::CancelOperation{"0/send#0"}}));
      bench.pass_time(bench.now_ms);  // the operation's own turn
      ASSERT_TRUE(bench.state.operations.empty());
      if (way == 0) {
        ASSERT_TRUE(bench.apply({run::CompleteRun{bench.json("1")}}));
      } else {
        ASSERT_TRUE(bench.apply({run::FailRun{way == 2 ? Code::cancelled : Code::step_failed}}));
      }
    }
    const std::array ends{run::RunStatus::completed, run::RunStatus::failed, run::RunStatus::cancelled,
                          run::RunStatus::terminated};
    EXPECT_EQ(bench.state.status, ends[static_cast<std::size_t>(way)]);
    EXPECT_TRUE(bench.timers.empty());
    EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
    std::vector<core::Action> pending;
    run::RunDecider::pending(bench.state, {bench.stream, 99, bench.now_ms, bench.epoch}, pending);
    EXPECT_TRUE(pending.empty());
    std::size_t returned = 0, withdrawn = 0, unqueued = 0, closing = 0;
    for (const auto& sent : bench.messages) {
      returned += std::holds_alternative<core::LeaseReturned>(sent.body);
      withdrawn += std::holds_alternative<core::ApprovalWithdrawn>(sent.body);
      unqueued += std::holds_alternative<core::LeaseCancelled>(sent.body);
      closing += sent.closing;
    }
    EXPECT_EQ(std::tuple(returned, withdrawn, unqueued, closing), std::tuple(1U, 1U, 1U, 3U)) << way;
  }
}

TEST(RunLifecycle, EveryCommandHasADefinedOutcomeInEveryStateTwice) {  // FR-61
  enum { kNone, kOpen, kStuck, kClosed };
  for (const int at : {kNone, kOpen, kStuck, kClosed}) {
    const std::vector<std::pair<run::Command, std::array<Code, 4>>> table{
        {run::Signal{"s", {}}, {Code::not_found, Code::ok, Code::ok, Code::run_closed}},
        {run::Cancel{"c"}, {Code::not_found, Code::ok, Code::ok, Code::run_closed}},
        {run::Resume{}, {Code::not_found, Code::ok, Code::ok, Code::run_closed}},
        {message(core::StreamId::named(core::StreamKind::approvals, ""), "0/x#0?ask#1",
                 core::OutcomeDecided{}),
         {Code::not_found, Code::stale_completion, Code::stale_completion, Code::stale_completion}},
        {run::ApplyActivation{}, {Code::not_found, Code::ok, Code::head_moved, Code::head_moved}},
        {core::TimerFired{"t:0/x#0", 1},
         {Code::not_found, Code::stale_completion, Code::stale_completion, Code::stale_completion}},
        {core::ActionFinished{.path = "0/x#0"},
         {Code::not_found, Code::stale_completion, Code::stale_completion, Code::stale_completion}},
        {message(kPool, "0/x#0", core::LeaseRefused{}),
         {Code::not_found, Code::stale_completion, Code::stale_completion, Code::stale_completion}},
        {run::Terminate{"t"}, {Code::not_found, Code::ok, Code::ok, Code::run_closed}},
    };
    for (const auto& [command, codes] : table) {
      RunBench bench;
      if (at != kNone) ASSERT_TRUE(bench.start());
      if (at == kStuck) ASSERT_TRUE(bench.give(core::ActivationFailed{{Code::non_determinism, "changed"}}));
      if (at == kClosed) ASSERT_TRUE(bench.apply({run::CompleteRun{}}));
      const auto status = bench.give(command);
      EXPECT_EQ(status ? Code::ok : status.error().code, codes[static_cast<std::size_t>(at)])
          << "command " << command.index() << " state " << at;
      (void)bench.give(command);
    }
  }
}

TEST(RunLifecycle, StuckRunRecordsEverythingAndGoesOnWhenResumed) {  // E5, E8
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(
      bench.apply({run::ScheduleStep{"0/a#0", "exec", {}, {}}, run::StartTimer{"0/t#0", bench.now_ms + 5}}));
  const core::Action action = bench.actions.at(0);
  const run::StuckReport report{.code = Code::non_determinism,
                                .expected = "step 0/a#0",
                                .actual = "step 0/b#0",
                                .event_seq = 2,
                                .path = "0/b#0",
                                .message = "code and history disagree"};
  ASSERT_TRUE(bench.give(run::ApplyActivation{.commands = {}, .stuck = report}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_EQ(bench.state.stuck, report);
  EXPECT_EQ(bench.state.stuck_since_ms, bench.now_ms);
  ASSERT_TRUE(bench.give(bench.finished(action)));
  EXPECT_FALSE(bench.activates);
  bench.pass_time(bench.now_ms + 5);
  ASSERT_TRUE(bench.give(run::Signal{"s", {}}));
  ASSERT_TRUE(bench.give(run::Cancel{"c"}));
  EXPECT_FALSE(bench.activates);
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
  EXPECT_FALSE(run::RunDecider::owes_activation(bench.state));
  ASSERT_TRUE(bench.give(run::Resume{"2"}));
  EXPECT_TRUE(bench.activates);
  EXPECT_EQ(bench.state.version, "2");
  EXPECT_EQ(bench.state.stuck, run::StuckReport{});
  EXPECT_TRUE(run::RunDecider::owes_activation(bench.state));
  EXPECT_EQ(bench.count<run::StepCompleted>() + bench.count<run::TimerElapsed>(), 2U);
}

TEST(RunLifecycle, OutputThatMakesNoSenseParksTheRun) {  // FR-65
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(
      bench.apply({run::StartTimer{"0/t#0", 1}, run::TakeSignal{"0/s#0", 5}, run::StartTimer{"0/t#1", 1}}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_EQ(bench.state.stuck.path, "0/s#0");
  EXPECT_EQ(bench.count<run::TimerStarted>(), 1U);
}

TEST(RunLifecycle, CutOutputStillOwesAnActivation) {  // J2
  RunBench bench;
  ASSERT_TRUE(bench.start());
  const run::Command whole = run::ApplyActivation{
      .commands = {run::SetPhase{"0/p#0", run::Phase::running}, run::StartTimer{"0/t#0", 9}}};
  const auto parts = run::RunDecider::split(whole);
  ASSERT_EQ(parts.size(), 2U);
  ASSERT_TRUE(bench.give(parts[0]));
  EXPECT_TRUE(run::RunDecider::owes_activation(bench.state));
  EXPECT_TRUE(run::RunDecider::in_flight(bench.state));
  ASSERT_TRUE(bench.give(parts[1]));
  EXPECT_FALSE(run::RunDecider::owes_activation(bench.state));
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
}

TEST(RunLifecycle, ActivationWithoutOutputParksTheRunWithOneEvent) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  EXPECT_TRUE(run::RunDecider::in_flight(bench.state));
  ASSERT_TRUE(bench.apply({}));
  EXPECT_EQ(bench.count<run::ActivationTaken>(), 1U);
  EXPECT_FALSE(run::RunDecider::in_flight(bench.state));
  ASSERT_TRUE(bench.apply({}));
  EXPECT_EQ(bench.count<run::ActivationTaken>(), 1U);
}

TEST(RunTimer, CancelAroundItsFiringNeverFails) {  // FR-32
  for (const std::int64_t shift : {-1, 0, 1}) {
    RunBench bench;
    ASSERT_TRUE(bench.start());
    const std::int64_t due = bench.now_ms + 100;
    ASSERT_TRUE(bench.apply({run::StartTimer{"0/t#0", due}}));
    bench.pass_time(due + shift);
    ASSERT_TRUE(bench.apply({run::CancelTimer{"0/t#0"}}));
    EXPECT_TRUE(bench.timers.empty());
    EXPECT_EQ(bench.give(core::TimerFired{"t:0/t#0", due}).error().code, Code::stale_completion);
    ASSERT_TRUE(bench.apply({run::CompleteRun{}}));
    EXPECT_EQ(bench.state.status, run::RunStatus::completed);
  }
}

TEST(RunTimer, FirstEndOfARunWinsOverLaterTimers) {  // FR-34
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(
      bench.apply({run::StartTimer{"0/a#0", bench.now_ms + 1}, run::StartTimer{"0/b#0", bench.now_ms + 1}}));
  ASSERT_TRUE(bench.give(core::TimerFired{"t:0/a#0", bench.now_ms + 1}));
  ASSERT_TRUE(bench.apply({run::CompleteRun{}}));
  EXPECT_EQ(bench.give(core::TimerFired{"t:0/b#0", bench.now_ms + 1}).error().code, Code::stale_completion);
}

TEST(RunSignal, UnreadOnesAreCarriedOverACheckpoint) {  // J15, FR-62
  RunBench bench;
  ASSERT_TRUE(bench.start());
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(bench.give(run::Signal{"s", bench.json(std::to_string(i))}));
  ASSERT_TRUE(bench.apply({run::TakeSignal{"0/s#0", 1}}));
  run::Checkpoint checkpoint{.state = bench.digest_key.make(core::Encoding::cereal, "state"), .signals = {}};
  for (const std::uint64_t number : {2U, 3U}) {
    checkpoint.signals.push_back({number, "s", bench.json(std::to_string(number))});
  }
  ASSERT_TRUE(bench.apply({checkpoint}));
  EXPECT_EQ(bench.state.generation, 1U);
  EXPECT_EQ(bench.state.restart_seq, bench.seq);
  ASSERT_EQ(bench.state.signals.size(), 2U);
  EXPECT_EQ(bench.state.signals.at(2).payload.seq, bench.seq);
  ASSERT_TRUE(bench.apply({run::TakeSignal{"1/s#0", 2}}));
  EXPECT_EQ(bench.state.signals.size(), 1U);
}

TEST(RunCheckpoint, IsRefusedWhileSomethingIsOpen) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.apply({run::StartTimer{"0/t#0", 9}, run::Checkpoint{}}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_EQ(bench.state.stuck.code, Code::checkpoint_misplaced);
}

TEST(RunLease, ExpiringIsKeptWhileTheRunIsOpenAndGivenBackAfterwards) {
  RunBench bench;
  open_everything(bench);
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#0", core::LeaseExpiring{"sb", 7})));
  ASSERT_EQ(bench.messages.size(), 1U);
  EXPECT_EQ(bench.messages[0].body, core::MessageBody(core::LeaseKept{"sb", 7}));
  EXPECT_EQ(bench.messages[0].target, kPool);
  EXPECT_FALSE(bench.activates);
  ASSERT_TRUE(bench.give(run::Terminate{"t"}));
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#0", core::LeaseExpiring{"sb", 7})));
  EXPECT_EQ(bench.messages.at(0).body, core::MessageBody(core::LeaseReturned{"sb", 7}));
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#0", core::LeaseEnded{"sb", 7})));
  EXPECT_TRUE(bench.state.leases.empty());
}

TEST(RunUpdate, IsAcceptedByRunningRunsAloneAndAnsweredOnce) {
  RunBench bench;
  EXPECT_EQ(bench.give(run::Update{"u", {}}).error().code, Code::not_found);
  ASSERT_TRUE(bench.start());
  EXPECT_EQ(bench.give(run::Update{"", {}}).error().code, Code::invalid_argument);
  EXPECT_EQ(
      bench.give(run::Update{"u", bench.json(std::string(run::kMaxPayloadBytes + 1, '1'))}).error().code,
      Code::record_too_large);
  ASSERT_TRUE(bench.give(run::Update{"u", bench.json("1")}));
  EXPECT_TRUE(bench.activates);
  ASSERT_TRUE(bench.give(run::Update{"u", bench.json("2")}));
  EXPECT_EQ(bench.last<run::UpdateAccepted>()->number, 2U);
  ASSERT_TRUE(bench.apply({run::CompleteUpdate{2, Code::ok, bench.json("4")}}));
  EXPECT_EQ(bench.state.updates, (std::map<std::uint64_t, std::string>{{1, "u"}}));
  ASSERT_TRUE(bench.apply({run::CompleteUpdate{2, Code::ok, bench.json("4")}}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck) << "it was answered already";
  EXPECT_EQ(bench.give(run::Update{"u", {}}).error().code, Code::run_stuck);
  ASSERT_TRUE(bench.give(run::Resume{}));
  ASSERT_TRUE(bench.apply({run::CompleteRun{bench.json("1")}}));
  EXPECT_EQ(bench.last<run::UpdateAbandoned>()->number, 1U);
  EXPECT_EQ(bench.give(run::Update{"u", {}}).error().code, Code::run_closed);
}

TEST(RunUpdate, ThatIsOpenForbidsACheckpoint) {
  RunBench bench;
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(bench.give(run::Update{"u", bench.json("1")}));
  ASSERT_TRUE(bench.apply({run::Checkpoint{.state = bench.json("1")}}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_EQ(bench.state.stuck.code, Code::checkpoint_misplaced);
}

TEST(RunLease, GrantedTooLateGoesStraightBack) {
  RunBench bench;
  open_everything(bench);
  ASSERT_TRUE(bench.apply({run::WithdrawExchange{"0/lease#1"}}));
  EXPECT_EQ(bench.messages.at(0).body, core::MessageBody(core::LeaseCancelled{}));
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#1", core::LeaseGranted{.sandbox = "late", .token = 8})));
  EXPECT_EQ(bench.messages.at(0).body, core::MessageBody(core::LeaseReturned{"late", 8}));
  EXPECT_FALSE(bench.state.leases.contains("0/lease#1"));
  // Withdrawn after the grant came, before the workflow saw it: the same.
  ASSERT_TRUE(bench.apply({run::WithdrawExchange{"0/lease#0"}}));
  EXPECT_EQ(bench.messages.at(0).body, core::MessageBody(core::LeaseReturned{"sb", 7}));
}

TEST(RunLease, QueuePositionIsShownAndResumesNobody) {
  RunBench bench;
  open_everything(bench);
  ASSERT_TRUE(bench.give(message(kAdmission, "0/lease#1", core::LeaseQueued{3})));
  EXPECT_FALSE(bench.activates);
  EXPECT_EQ(bench.state.exchanges.at("0/lease#1").queue_position, 3U);
}

TEST(RunLease, ReleaseWaitsForThePoolAndLossIsSeen) {
  RunBench bench;
  open_everything(bench);
  ASSERT_TRUE(bench.apply({run::ReleaseLease{"0/release#0", "0/lease#0"}}));
  EXPECT_EQ(bench.messages.at(0).body, core::MessageBody(core::LeaseReturned{"sb", 7}));
  EXPECT_TRUE(bench.state.leases.at("0/lease#0").returning);
  EXPECT_FALSE(bench.give(message(kPool, "0/lease#0", core::LeaseEnded{"sb", 6})));  // another lease's end
  ASSERT_TRUE(bench.give(message(kPool, "0/lease#0", core::LeaseEnded{"sb", 7, Code::sandbox_lost})));
  EXPECT_TRUE(bench.activates);
  EXPECT_EQ(bench.last<run::LeaseClosed>()->code, Code::sandbox_lost);
}

}  // namespace
}  // namespace sandglass::tests
