// Admission, pools and runs together under random orders: messages are late and actions fail, time out or
// answer with an unknown outcome. Whatever happens, no limit is passed, one lease has one sandbox, and in the
// end all is free.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "sandbox-runtime/scheduler/codec/codec.h"
#include "tests/support/decider_stream.h"

namespace sandglass::sandbox_runtime::scheduler {
namespace {

using Admission = tests::Stream<AdmissionDecider, codec::AdmissionCodec>;
using Pool = tests::Stream<PoolDecider, codec::PoolCodec>;

constexpr AdmissionLimits kLimits{.global = 4, .per_user = 2, .queue = 6, .reservation_ttl_ms = 3'000};
constexpr PoolLimits kPoolLimits{
    .lease_ttl_ms = 2'000, .answer_within_ms = 1'000, .create_timeout_ms = 500, .destroy_timeout_ms = 500};

struct World {
  explicit World(std::uint32_t seed) : random(seed) {
    admission.id = admission_stream();
    EXPECT_TRUE(admission.apply(ConfigureAdmission{kLimits}, now));
    for (const char* name : {"small", "large"}) {
      Pool& pool = pools[pool_stream(name)];
      pool.id = pool_stream(name);
      EXPECT_TRUE(pool.apply(ConfigurePool{kPoolLimits}, now));
    }
  }

  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  }
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }

  /// Takes what a turn put out: messages by pair in order, timers, actions.
  void release(const core::StreamId& from, core::Turn& turn) {
    for (core::Message& message : turn.messages) wires[{from, message.target}].push_back(std::move(message));
    for (const auto& timer : turn.timers_started) timers.insert({timer.due_ms, from, timer.key});
    for (const auto& timer : turn.timers_ended) timers.erase({timer.due_ms, from, timer.key});
    for (core::Action& action : turn.actions) actions.push_back({from, std::move(action)});
    turn = {};
    check();
  }

  void deliver() {
    if (wires.empty()) return;
    auto wire = std::next(wires.begin(), static_cast<std::ptrdiff_t>(below(wires.size())));
    const core::Message message = wire->second.front();
    wire->second.pop_front();
    if (wire->second.empty()) wires.erase(wire);
    const core::MessageReceived command{message};
    if (message.target == admission.id) {
      EXPECT_TRUE(admission.apply(command, now));
      release(admission.id, admission.last);
    } else if (const auto pool = pools.find(message.target); pool != pools.end()) {
      EXPECT_TRUE(pool->second.apply(command, now));
      release(pool->first, pool->second.last);
    } else {
      to_run(message);
    }
  }

  void say(const core::StreamId& run, const core::StreamId& target, core::MessageBody body) {
    wires[{run, target}].push_back(
        {.source = run, .target = target, .correlation = "c", .body = std::move(body)});
  }

  void to_run(const core::Message& message) {
    Run& run = runs.at(message.target);
    if (const auto* granted = std::get_if<core::LeaseGranted>(&message.body)) {
      EXPECT_TRUE(run.sandbox.empty());
      EXPECT_TRUE(ever_granted.insert({granted->sandbox, granted->token}).second) << "one lease, one sandbox";
      run.sandbox = granted->sandbox;
      run.token = granted->token;
      run.pool = message.source;
      if (run.silent) return;
      if (chance(50)) say(message.target, run.pool, core::LeaseReturned{run.sandbox, run.token});
    } else if (std::holds_alternative<core::LeaseRefused>(message.body)) {
      EXPECT_FALSE(run.answered);
      run.answered = true;
    } else if (std::holds_alternative<core::LeaseEnded>(message.body)) {
      EXPECT_FALSE(run.answered);
      run.answered = true;
    } else if (std::holds_alternative<core::LeaseExpiring>(message.body) && !run.silent) {
      if (chance(60)) {
        say(message.target, run.pool, core::LeaseKept{run.sandbox, run.token});
      } else {
        say(message.target, run.pool, core::LeaseReturned{run.sandbox, run.token});
      }
    }
  }

  void finish_action() {
    if (actions.empty()) return;
    const std::size_t at = below(actions.size());
    const auto [stream, action] = actions[at];
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(at));
    if (action.kind == core::ActionKind::cancel) return;
    core::ActionFinished finished{.path = action.path, .token = action.token};
    const std::size_t dice = below(10);
    if (action.name == "sandbox.create" && dice < 2) finished.outcome = core::Outcome::not_done;
    if (dice == 2) finished.outcome = core::Outcome::unknown;
    if (action.name == "sandbox.renew" && dice == 3) finished.code = base::Code::sandbox_lost;
    const bool there = action.name == "sandbox.create" && finished.outcome != core::Outcome::not_done;
    if (there) machine.insert(action.path);
    if (action.name == "sandbox.destroy" && finished.outcome == core::Outcome::done)
      machine.erase(action.path);
    Pool& pool = pools.at(stream);
    EXPECT_TRUE(pool.apply(finished, now));
    release(stream, pool.last);
    if (chance(10)) {  // the same answer twice
      EXPECT_TRUE(pool.apply(finished, now));
      EXPECT_TRUE(pool.events().empty());
    }
  }

  void advance() {
    if (timers.empty()) return;
    const auto [due, stream, key] = *timers.begin();
    now = std::max(now, due);
    const core::TimerFired fired{key, due};
    timers.erase(timers.begin());
    if (stream == admission.id) {
      EXPECT_TRUE(admission.apply(fired, now));
      release(stream, admission.last);
    } else {
      EXPECT_TRUE(pools.at(stream).apply(fired, now));
      release(stream, pools.at(stream).last);
    }
  }

  void start_run(int number) {
    const core::StreamId id = core::StreamId::named(core::StreamKind::run, std::to_string(number));
    runs[id].silent = chance(20);
    say(id, admission.id,
        core::LeaseRequested{.template_name = chance(50) ? "small" : "large",
                             .tenant = "t",
                             .user = "u" + std::to_string(below(4)),
                             .wait_timeout_ms = static_cast<std::int64_t>(below(4000))});
    if (chance(15)) say(id, admission.id, core::LeaseCancelled{});
  }

  void check() {
    const auto& reservations = admission.state.reservations;
    ASSERT_LE(reservations.size(), kLimits.global);
    std::map<std::string, int> of_user;
    for (const auto& [id, reservation] : reservations) {
      ASSERT_LE(++of_user[reservation.claim.user], static_cast<int>(kLimits.per_user));
    }
    std::set<std::string> held;
    for (const auto& [id, pool] : pools) {
      for (const auto& [sandbox, entry] : pool.state.sandboxes) {
        ASSERT_TRUE(held.insert(entry.reservation).second) << "one reservation, one sandbox";
        ASSERT_TRUE(reservations.contains(entry.reservation)) << "a sandbox counts until it is gone";
      }
    }
    ASSERT_LE(machine.size(), kLimits.global) << "what is really there counts (Q11)";
  }

  struct Run {
    std::string sandbox;
    std::uint64_t token = 0;
    core::StreamId pool;
    bool silent = false;
    bool answered = false;
  };

  std::mt19937 random;
  std::int64_t now = 1000;
  Admission admission;
  std::map<core::StreamId, Pool> pools;
  std::map<core::StreamId, Run> runs;
  std::map<std::pair<core::StreamId, core::StreamId>, std::deque<core::Message>> wires;
  std::set<std::tuple<std::int64_t, core::StreamId, std::string>> timers;
  std::vector<std::pair<core::StreamId, core::Action>> actions;
  std::set<std::string> machine;
  std::set<std::pair<std::string, std::uint64_t>> ever_granted;
};

TEST(SchedulerProperty, LimitsHoldAndEverythingIsFreeInTheEnd) {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    int started = 0;
    for (int step = 0; step < 600; ++step) {
      const std::size_t dice = world.below(10);
      if (dice < 5) {
        world.deliver();
      } else if (dice < 8) {
        world.finish_action();
      } else if (dice < 9 && started < 30) {
        world.start_run(started++);
      } else {
        world.advance();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int step = 0; step < 20'000; ++step) {
      while (!world.wires.empty()) world.deliver();
      if (!world.actions.empty()) {
        world.finish_action();
      } else if (!world.timers.empty()) {
        world.advance();
      } else if (world.wires.empty()) {
        break;
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(world.admission.state.reservations.empty());
    EXPECT_TRUE(world.admission.state.queue.empty());
    EXPECT_TRUE(world.machine.empty());
    for (const auto& [id, pool] : world.pools) EXPECT_TRUE(pool.state.sandboxes.empty());
    for (const auto& [id, run] : world.runs) {
      if (!run.sandbox.empty()) EXPECT_TRUE(run.answered) << "every lease that was granted ends";
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::scheduler
