#include "sandbox-runtime/scheduler/admission.h"

#include <map>
#include <set>
#include <vector>

#include "sandbox-runtime/scheduler/codec/codec.h"
#include "tests/support/decider_stream.h"

namespace sandglass::sandbox_runtime::scheduler {
namespace {

using tests::received;
using tests::sent;
using Admission = tests::Stream<AdmissionDecider, codec::AdmissionCodec>;

core::StreamId run(int number) {
  return core::StreamId::named(core::StreamKind::run, std::to_string(number));
}

core::LeaseRequested wanted(std::string user = "ann", std::int64_t wait_ms = 30'000) {
  return {.template_name = "default", .tenant = "t", .user = std::move(user), .wait_timeout_ms = wait_ms};
}

Admission admission(AdmissionLimits limits = {}) {
  Admission made{.id = admission_stream()};
  EXPECT_TRUE(made.apply(ConfigureAdmission{limits}, 0));
  return made;
}

TEST(Admission, AFreePlaceIsReservedAndThePoolIsTold) {
  Admission stream = admission();
  ASSERT_TRUE(stream.apply(received(run(1), "lease#0", wanted()), 10));
  const auto reserved = sent<core::LeaseReserved>(stream.last, pool_stream("default"));
  ASSERT_EQ(reserved.size(), 1U);
  EXPECT_EQ(reserved[0].run, run(1));
  EXPECT_EQ(stream.state.reservations.size(), 1U);
  EXPECT_EQ(stream.last.timers_started.size(), 1U);
  EXPECT_EQ(stream.last.timers_started[0].due_ms, 10 + stream.state.limits.reservation_ttl_ms);
}

TEST(Admission, ARepeatedClaimIsCountedOnce) {  // O8, FR-178
  Admission stream = admission();
  ASSERT_TRUE(stream.apply(received(run(1), "lease#0", wanted()), 10));
  ASSERT_TRUE(stream.apply(received(run(1), "lease#0", wanted()), 11));
  EXPECT_TRUE(stream.last.messages.empty());
  EXPECT_EQ(stream.state.reservations.size(), 1U);
}

TEST(Admission, TheThirdSandboxOfAUserWaitsAndAnotherUserGoesAhead) {  // Q2, no head-of-line blocking
  Admission stream = admission();
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(stream.apply(received(run(i), "c", wanted()), i));
  EXPECT_EQ(sent<core::LeaseQueued>(stream.last, run(3))[0].position, 1U);
  ASSERT_TRUE(stream.apply(received(run(4), "c", wanted("bob")), 4));
  EXPECT_EQ(stream.state.reservations.size(), 3U);
  ASSERT_EQ(stream.state.queue.size(), 1U);
}

TEST(Admission, AThousandClaimsForAHundredPlacesGetEachPlaceOnce) {  // ADV-E1
  Admission stream = admission({.global = 100, .per_user = 1000});
  std::vector<core::StreamId> served;
  std::set<std::string> places;
  const auto take_reserved = [&] {
    for (const auto& reserved : sent<core::LeaseReserved>(stream.last, pool_stream("default"))) {
      EXPECT_TRUE(places.insert(reserved.reservation).second) << reserved.reservation << " was given twice";
      served.push_back(reserved.run);
    }
  };
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(stream.apply(received(run(i), "lease#0", wanted()), i));
    take_reserved();
  }
  EXPECT_EQ(served.size(), 100U);
  EXPECT_EQ(stream.state.queue.size(), 900U);
  while (!stream.state.reservations.empty()) {
    const std::string id = stream.state.reservations.begin()->first;
    ASSERT_TRUE(stream.apply(received(pool_stream("default"), id, core::ReservationFreed{id}), 2000));
    take_reserved();
    ASSERT_LE(stream.state.reservations.size(), 100U);
  }
  ASSERT_EQ(served.size(), 1000U);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(served[static_cast<std::size_t>(i)], run(i)) << "in order of arrival";
}

/// One tenant asks without an end. Another that asks now and then is served next, and one that asks as much
/// has half.
TEST(Admission, AFloodKeepsNobodyElseOut) {  // ADV-E19, Q5
  Admission stream = admission({.global = 10, .per_user = 5, .queue = 100});
  int runs = 0;
  std::map<core::StreamId, std::string> tenants;
  std::map<std::string, int> served;
  std::map<std::string, int> refused;
  const auto look = [&] {
    for (const core::Message& message : stream.last.messages) {
      if (const auto* reserved = std::get_if<core::LeaseReserved>(&message.body)) ++served[reserved->tenant];
      if (std::holds_alternative<core::LeaseRefused>(message.body)) ++refused[tenants.at(message.target)];
    }
  };
  const auto ask = [&](const std::string& tenant) {
    tenants[run(++runs)] = tenant;
    auto claim = wanted("user-" + std::to_string(runs % 20), 80'000'000);
    claim.tenant = tenant;
    ASSERT_TRUE(stream.apply(received(run(runs), "c", claim), runs));
    look();
  };
  // the place that was given first, of this tenant or of anybody
  const auto free_one = [&](const std::string& tenant = "") {
    std::uint64_t first = 0;
    for (const auto& [id, reservation] : stream.state.reservations) {
      const std::uint64_t number = std::stoul(id.substr(2));
      const bool counts = tenant.empty() || reservation.claim.tenant == tenant;
      if (counts && (first == 0 || number < first)) first = number;
    }
    const std::string id = "r-" + std::to_string(first);
    ASSERT_TRUE(stream.apply(received(pool_stream("default"), id, core::ReservationFreed{id}), runs));
    look();
  };
  for (int i = 0; i < 2'000; ++i) ask("a");
  EXPECT_EQ(served["a"], 10);
  for (int i = 1; i <= 100; ++i) {
    ask("b");
    free_one("a");
    ASSERT_EQ(served["b"], i) << "it waits for one place to become free and for nobody before it";
    free_one("b");
    for (int j = 0; j < 5; ++j) ask("a");
  }
  EXPECT_EQ(refused["b"], 0);
  served.clear();
  for (int i = 0; i < 1'000; ++i) {
    for (int j = 0; j < 3; ++j) ask(j % 2 == 0 ? "a" : "b");
    free_one();
  }
  EXPECT_NEAR(served["a"], 500, 25);
  EXPECT_EQ(served["a"] + served["b"], 1'000);
  EXPECT_EQ(stream.state.queue.size(), 99u) << "full, but for the one that was served last";
}

TEST(Admission, AFullQueueTakesTheFewClaimsOfOneForTheManyOfAnother) {  // ADV-E19
  Admission stream = admission({.global = 1, .per_user = 1, .queue = 4});
  for (int i = 0; i <= 4; ++i) ASSERT_TRUE(stream.apply(received(run(i), "c", wanted()), i));
  ASSERT_EQ(stream.state.queue.size(), 4u);
  ASSERT_TRUE(stream.apply(received(run(5), "c", wanted("bob")), 5));
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(4)).at(0).code, base::Code::overloaded)
      << "the newest of ann's";
  EXPECT_EQ(sent<core::LeaseQueued>(stream.last, run(5)).at(0).position, 4u);
  ASSERT_TRUE(stream.apply(received(run(6), "c", wanted("bob")), 6));  // 3 to 1
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(3)).size(), 1u);
  ASSERT_TRUE(stream.apply(received(run(7), "c", wanted("bob")), 7));  // 2 to 2
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(7)).at(0).code, base::Code::overloaded);
}

TEST(Admission, AFreedReservationGoesToTheLongestWaitingClaim) {
  Admission stream = admission({.global = 1, .per_user = 1});
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(stream.apply(received(run(i), "c", wanted("u" + std::to_string(i))), i));
  }
  const std::string first = stream.state.reservations.begin()->first;
  ASSERT_TRUE(stream.apply(received(pool_stream("default"), first, core::ReservationFreed{first}), 9));
  EXPECT_EQ(sent<core::LeaseReserved>(stream.last, pool_stream("default")).at(0).run, run(2));
  EXPECT_EQ(sent<core::LeaseQueued>(stream.last, run(3)).at(0).position, 1U);
  // The same message again frees nothing more.
  ASSERT_TRUE(stream.apply(received(pool_stream("default"), first, core::ReservationFreed{first}), 9));
  EXPECT_EQ(stream.state.reservations.size(), 1U);
  EXPECT_EQ(stream.state.queue.size(), 1U);
}

TEST(Admission, AClaimThatWaitsTooLongIsRefusedWithTheBindingLimit) {  // Q4, ADV-E17
  Admission stream = admission({.global = 5, .per_user = 1});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", wanted("ann", 500)), 0));
  const core::TimerChange timer = stream.last.timers_started.at(0);
  EXPECT_EQ(timer.due_ms, 500);
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, 500));
  const auto refused = sent<core::LeaseRefused>(stream.last, run(2));
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].code, base::Code::queue_timeout);
  EXPECT_NE(refused[0].message.find("1 sandboxes a user"), std::string::npos) << refused[0].message;
  EXPECT_TRUE(stream.state.queue.empty());
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, 501));
  EXPECT_TRUE(stream.last.messages.empty());
}

TEST(Admission, WhoDoesNotWaitIsRefusedAtOnce) {
  Admission stream = admission({.global = 1, .per_user = 1, .queue = 1});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", wanted("bob", 0)), 0));
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(2)).at(0).code, base::Code::quota_exceeded);
  ASSERT_TRUE(stream.apply(received(run(3), "c", wanted("bob")), 0));
  ASSERT_TRUE(stream.apply(received(run(4), "c", wanted("eve")), 0));
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(4)).at(0).code, base::Code::overloaded);
}

TEST(Admission, AHugeOrNegativeWaitIsBoundedAndABadTemplateNameIsRefused) {  // ADV-E18
  Admission stream = admission({.global = 1, .per_user = 1});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", wanted("bob", INT64_MAX)), 1000));
  EXPECT_EQ(stream.last.timers_started.at(0).due_ms, 1000 + 86'400'000);
  ASSERT_TRUE(stream.apply(received(run(3), "c", wanted("bob", INT64_MIN)), 1000));
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(3)).size(), 1U);
  auto bad = wanted("eve");
  bad.template_name = "x\",\"token\":\"9";
  ASSERT_TRUE(stream.apply(received(run(4), "c", bad), 1000));
  EXPECT_EQ(sent<core::LeaseRefused>(stream.last, run(4)).at(0).code, base::Code::invalid_argument);
}

TEST(Admission, ACancelledClaimLeavesTheQueueOrIsCalledBackFromThePool) {  // ADV-E21
  Admission stream = admission({.global = 1, .per_user = 1});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", wanted("bob")), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", core::LeaseCancelled{}), 1));
  EXPECT_TRUE(stream.state.queue.empty());
  ASSERT_TRUE(stream.apply(received(run(1), "c", core::LeaseCancelled{}), 2));
  EXPECT_EQ(sent<core::LeaseCancelled>(stream.last, pool_stream("default")).size(), 1U);
  EXPECT_EQ(stream.state.reservations.size(), 1U) << "it counts until the pool frees it";
}

TEST(Admission, AReservationWithoutASandboxIsCalledBackAfterItsTtl) {  // Q3
  Admission stream = admission({.reservation_ttl_ms = 700});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  const core::TimerChange timer = stream.last.timers_started.at(0);
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, 700));
  ASSERT_EQ(stream.last.messages.size(), 1U);
  EXPECT_EQ(stream.last.messages[0].correlation, stream.state.reservations.begin()->first);
  EXPECT_EQ(stream.state.reservations.size(), 1U);
}

TEST(Admission, TheSameConfigurationAgainWritesNothingAndAHigherLimitServesTheQueue) {
  Admission stream = admission({.global = 1, .per_user = 2});
  ASSERT_TRUE(stream.apply(received(run(1), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(received(run(2), "c", wanted()), 0));
  ASSERT_TRUE(stream.apply(ConfigureAdmission{{.global = 1, .per_user = 2}}, 1));
  EXPECT_TRUE(stream.events().empty());
  ASSERT_TRUE(stream.apply(ConfigureAdmission{{.global = 2, .per_user = 2}}, 2));
  EXPECT_EQ(stream.state.reservations.size(), 2U);
}

TEST(Admission, AnEventThatIsNewerThanTheProgramIsRefused) {  // J4
  EXPECT_EQ(codec::AdmissionCodec::decode({.type = 77}).error().code, base::Code::event_unknown);
  EXPECT_EQ(codec::AdmissionCodec::decode({.type = 1, .version = 2}).error().code, base::Code::event_unknown);
  EXPECT_EQ(codec::PoolCodec::decode({.type = 77}).error().code, base::Code::event_unknown);
  EXPECT_EQ(codec::PoolCodec::decode({.type = 2, .version = 1, .body = "\xff"}).error().code,
            base::Code::record_damaged);
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::scheduler
