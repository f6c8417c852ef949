#include "sandbox-runtime/scheduler/pool.h"

#include "sandbox-runtime/scheduler/codec/codec.h"
#include "tests/support/decider_stream.h"

namespace sandglass::sandbox_runtime::scheduler {
namespace {

using tests::received;
using tests::sent;

const core::StreamId kRun = core::StreamId::named(core::StreamKind::run, "r");

struct Pool : tests::Stream<PoolDecider, codec::PoolCodec> {
  Pool() { id = pool_stream("default"); }

  void reserve(std::string reservation = "r-1", std::string correlation = "lease#0") {
    core::LeaseReserved body{.run = kRun,
                             .reservation = std::move(reservation),
                             .template_name = "default",
                             .tenant = "t",
                             .user = "u"};
    ASSERT_TRUE(apply(received(admission_stream(), std::move(correlation), std::move(body)), 0));
  }
  /// Answers the one action under way.
  void answer(core::Outcome outcome, base::Code code = base::Code::ok, std::string result = {},
              std::int64_t now = 0) {
    std::vector<core::Action> actions;
    PoolDecider::pending(state, {.stream = id}, actions);
    ASSERT_EQ(actions.size(), 1U);
    core::ActionFinished finished{.path = actions[0].path,
                                  .token = actions[0].token,
                                  .outcome = outcome,
                                  .code = code,
                                  .message = "why"};
    if (!result.empty()) finished.result = core::DigestKey().make(core::Encoding::bytes, result);
    ASSERT_TRUE(apply(finished, now));
  }
  void lease(std::int64_t now = 0) {
    reserve();
    answer(core::Outcome::done, base::Code::ok, "namespace\nmemory,cpu", now);
  }
  const Sandbox& only() const { return state.sandboxes.begin()->second; }
  std::string only_id() const { return state.sandboxes.begin()->first; }
};

TEST(Pool, AReservationBecomesASandboxAndALease) {
  Pool pool;
  pool.reserve();
  ASSERT_EQ(pool.last.actions.size(), 1U);
  const core::Action& create = pool.last.actions[0];
  EXPECT_EQ(create.name, "sandbox.create");
  EXPECT_EQ(create.input_slot->bytes,
            R"({"template":"default","sandbox":")" + pool.only_id() + R"(","token":1,"ttl_ms":120000})");
  EXPECT_TRUE(PoolDecider::in_flight(pool.state));
  pool.answer(core::Outcome::done, base::Code::ok, "namespace\nmemory,cpu", 1000);
  const auto granted = sent<core::LeaseGranted>(pool.last, kRun);
  ASSERT_EQ(granted.size(), 1U);
  EXPECT_EQ(granted[0].token, 1U);
  EXPECT_EQ(granted[0].provider, "namespace");
  EXPECT_EQ(granted[0].unenforced, "memory,cpu");
  EXPECT_EQ(pool.last.messages[0].correlation, "lease#0");
  EXPECT_FALSE(PoolDecider::in_flight(pool.state)) << "a held lease has a timer, no action";
}

TEST(Pool, ARepeatedReservationMakesNoSecondSandbox) {  // FR-178
  Pool pool;
  pool.reserve();
  pool.reserve();
  EXPECT_EQ(pool.state.sandboxes.size(), 1U);
  EXPECT_TRUE(pool.last.actions.empty());
}

TEST(Pool, AFailedCreationGoesBackToRunAndAdmission) {  // Q3, FR-187, ADV-E25
  Pool pool;
  pool.reserve();
  pool.answer(core::Outcome::not_done, base::Code::limit_unenforceable);
  EXPECT_EQ(sent<core::LeaseRefused>(pool.last, kRun).at(0).code, base::Code::limit_unenforceable);
  EXPECT_EQ(sent<core::ReservationFreed>(pool.last, admission_stream()).at(0).reservation, "r-1");
  EXPECT_TRUE(pool.state.sandboxes.empty());
}

TEST(Pool, AnUnknownCreationIsDestroyedBeforeItsPlaceIsFree) {
  Pool pool;
  pool.reserve();
  pool.answer(core::Outcome::unknown, base::Code::timed_out);
  EXPECT_EQ(sent<core::LeaseRefused>(pool.last, kRun).size(), 1U);
  EXPECT_TRUE(sent<core::ReservationFreed>(pool.last, admission_stream()).empty());
  EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.destroy");
  pool.answer(core::Outcome::done);
  EXPECT_EQ(sent<core::ReservationFreed>(pool.last, admission_stream()).size(), 1U);
  EXPECT_TRUE(sent<core::LeaseEnded>(pool.last, kRun).empty()) << "the run was refused, it held no lease";
}

TEST(Pool, AReturnedLeaseEndsWhenItsDestructionIsVerified) {
  Pool pool;
  pool.lease();
  const std::string id = pool.only_id();
  ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseReturned{id, 1}), 5));
  EXPECT_TRUE(pool.last.messages.empty());
  EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.destroy");
  ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseReturned{id, 1}), 6));
  EXPECT_TRUE(pool.last.actions.empty());
  pool.answer(core::Outcome::unknown, base::Code::host_unreachable, "", 10);
  const core::TimerChange retry = pool.last.timers_started.at(0);
  EXPECT_TRUE(sent<core::ReservationFreed>(pool.last, admission_stream()).empty());
  ASSERT_TRUE(pool.apply(core::TimerFired{retry.key, retry.due_ms}, retry.due_ms));
  pool.answer(core::Outcome::done);
  EXPECT_EQ(sent<core::LeaseEnded>(pool.last, kRun).at(0).code, base::Code::ok);
  EXPECT_EQ(sent<core::ReservationFreed>(pool.last, admission_stream()).size(), 1U);
}

TEST(Pool, ALeaseIsAskedForBeforeItsEndAndRenewedByItsRunOnly) {  // Q8
  Pool pool;
  pool.lease(1000);
  const std::string id = pool.only_id();
  const core::TimerChange ask = pool.last.timers_started.at(0);
  EXPECT_EQ(ask.due_ms, 61'000);
  ASSERT_TRUE(pool.apply(core::TimerFired{ask.key, ask.due_ms}, ask.due_ms));
  EXPECT_EQ(sent<core::LeaseExpiring>(pool.last, kRun).at(0).token, 1U);
  const core::StreamId stranger = core::StreamId::named(core::StreamKind::run, "stranger");
  ASSERT_TRUE(pool.apply(received(stranger, "lease#0", core::LeaseKept{id, 1}), ask.due_ms + 1));
  ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseKept{id, 0}), ask.due_ms + 1));
  EXPECT_TRUE(pool.last.actions.empty()) << "an older token renews nothing (ADV-E3)";
  ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseKept{id, 1}), ask.due_ms + 2));
  EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.renew");
  EXPECT_EQ(pool.last.timers_started.at(0).due_ms, ask.due_ms + 2 + 60'000);
  EXPECT_EQ(pool.only().stage, SandboxStage::leased);
  pool.answer(core::Outcome::done);
  EXPECT_FALSE(PoolDecider::in_flight(pool.state));
}

TEST(Pool, SilenceEndsTheLease) {  // FR-181
  Pool pool;
  pool.lease();
  core::TimerChange timer = pool.last.timers_started.at(0);
  ASSERT_TRUE(pool.apply(core::TimerFired{timer.key, timer.due_ms}, timer.due_ms));
  timer = pool.last.timers_started.at(0);
  ASSERT_TRUE(pool.apply(core::TimerFired{timer.key, timer.due_ms}, timer.due_ms));
  EXPECT_EQ(sent<core::LeaseEnded>(pool.last, kRun).at(0).code, base::Code::timed_out);
  pool.answer(core::Outcome::done);
  EXPECT_TRUE(sent<core::LeaseEnded>(pool.last, kRun).empty()) << "told once";
  EXPECT_EQ(sent<core::ReservationFreed>(pool.last, admission_stream()).size(), 1U);
}

/// The run's answer and the lease's end meet: whichever is decided first holds, and there is one owner at any
/// time.
TEST(Pool, AtItsEndALeaseIsRenewedOrEndedAndNeverBoth) {  // ADV-E7, FR-18, FR-24
  for (const bool kept_first : {true, false}) {
    Pool pool;
    pool.lease();
    const std::string id = pool.only_id();
    core::TimerChange timer = pool.last.timers_started.at(0);
    ASSERT_TRUE(pool.apply(core::TimerFired{timer.key, timer.due_ms}, timer.due_ms));
    timer = pool.last.timers_started.at(0);  // the lease's end
    const auto keep = [&] {
      ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseKept{id, 1}), timer.due_ms));
    };
    const auto end = [&] {
      ASSERT_TRUE(pool.apply(core::TimerFired{timer.key, timer.due_ms}, timer.due_ms));
    };
    if (kept_first) {
      keep();
      EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.renew");
      end();  // of the lease as it was
      EXPECT_TRUE(pool.events().empty());
      EXPECT_EQ(pool.only().stage, SandboxStage::leased);
    } else {
      end();
      EXPECT_EQ(sent<core::LeaseEnded>(pool.last, kRun).size(), 1U);
      keep();
      EXPECT_TRUE(pool.last.actions.empty()) << "a holder that comes too late renews nothing";
      EXPECT_EQ(pool.only().stage, SandboxStage::destroying);
    }
  }
}

TEST(Pool, ALossThatTheHostReportsEndsTheLeaseAtOnce) {  // FR-180
  Pool pool;
  pool.lease();
  ASSERT_TRUE(pool.apply(ReportLoss{pool.only_id(), 7}, 1));
  EXPECT_EQ(pool.only().stage, SandboxStage::leased) << "a report about another lease says nothing";
  ASSERT_TRUE(pool.apply(ReportLoss{pool.only_id(), 1}, 2));
  EXPECT_EQ(sent<core::LeaseEnded>(pool.last, kRun).at(0).code, base::Code::sandbox_lost);
  EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.destroy");
}

TEST(Pool, ARenewalThatMeetsALostSandboxEndsTheLeaseToo) {
  Pool pool;
  pool.lease();
  ASSERT_TRUE(pool.apply(received(kRun, "lease#0", core::LeaseKept{pool.only_id(), 1}), 5));
  pool.answer(core::Outcome::not_done, base::Code::sandbox_lost);
  EXPECT_EQ(sent<core::LeaseEnded>(pool.last, kRun).at(0).code, base::Code::sandbox_lost);
}

TEST(Pool, AReservationCalledBackWhileCreatingIsRefusedNowAndDestroyedLater) {  // ADV-E2
  Pool pool;
  pool.reserve();
  ASSERT_TRUE(pool.apply(received(admission_stream(), "r-1", core::LeaseCancelled{}), 1));
  EXPECT_EQ(sent<core::LeaseRefused>(pool.last, kRun).size(), 1U);
  EXPECT_EQ(pool.last.actions.at(0).kind, core::ActionKind::cancel);
  pool.answer(core::Outcome::done, base::Code::ok, "namespace\n");
  EXPECT_TRUE(sent<core::LeaseGranted>(pool.last, kRun).empty());
  EXPECT_EQ(pool.last.actions.at(0).name, "sandbox.destroy");
}

TEST(Pool, AGrantedLeaseIsNotCalledBack) {
  Pool pool;
  pool.lease();
  ASSERT_TRUE(pool.apply(received(admission_stream(), "r-1", core::LeaseCancelled{}), 1));
  EXPECT_EQ(pool.only().stage, SandboxStage::leased);
  EXPECT_TRUE(pool.events().empty());
}

TEST(Pool, AStaleAnswerChangesNothing) {  // J8
  Pool pool;
  pool.reserve();
  core::ActionFinished stale{.path = pool.only_id(), .token = {.epoch = 9, .attempt = 1, .counter = 1}};
  ASSERT_TRUE(pool.apply(stale, 1));
  EXPECT_TRUE(pool.events().empty());
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::scheduler
