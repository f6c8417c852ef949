// Schedules as streams: an answerer plans in UTC, runs end when the test says so.
#include "engine/schedule/decider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/schedule/codec/codec.h"
#include "engine/schedule/view/schedule_view.h"
#include "tests/support/decider_stream.h"

namespace sandglass::engine::schedule {
namespace {

constexpr std::int64_t kStart = 1'750'000'000'000;  // a multiple of ten seconds
constexpr std::int64_t kTick = 10'000;

Definition every_ten_seconds(Overlap overlap) {
  return {.name = "nightly",
          .tenant = "acme",
          .user = "cron:nightly",
          .workflow = "hello",
          .timing = {.intervals = {{.every_ms = kTick}}},
          .overlap = overlap};
}

/// A schedule with a clock, its timers, its actions and its runs.
struct World : tests::Stream<ScheduleDecider, codec::ScheduleCodec> {
  std::int64_t now = kStart;
  std::optional<core::TimerChange> timer;
  std::map<std::string, core::Action> actions;  // by path
  std::vector<std::string> started;             // fires, in order
  std::map<SkipReason, std::uint64_t> skipped;
  std::set<std::string> stopped;
  bool zones_work = true;

  explicit World(const Definition& definition) {
    id = schedule_stream("acme", definition.name);
    EXPECT_TRUE(give(CreateSchedule{definition, {}, "ann"}));
  }

  base::Status give(Command command) {
    auto given = apply(std::move(command), now);
    if (!given) return given;
    for (const Event& event : events()) note(event);
    for (const auto& ended : last.timers_ended) {
      if (timer && timer->key == ended.key && timer->due_ms == ended.due_ms) timer.reset();
    }
    for (const auto& begun : last.timers_started) timer = begun;
    for (core::Action& action : last.actions) take(std::move(action));
    return {};
  }
  void note(const Event& event) {
    if (const auto* run = std::get_if<ScheduledRunStarted>(&event)) started.push_back(run->fire);
    if (const auto* skip = std::get_if<MomentsSkipped>(&event)) skipped[skip->reason] += skip->moments.count;
  }
  void take(core::Action action) {
    if (action.kind == core::ActionKind::cancel) {
      stopped.insert(action.path);
      return;
    }
    const std::string path = action.path;
    actions[path] = std::move(action);
  }

  core::ActionFinished answer(const core::Action& action, std::string bytes) const {
    return {.path = action.path,
            .token = action.token,
            .result = core::DigestKey("k", "r").make(core::Encoding::bytes, std::move(bytes))};
  }
  /// Answers what is asked until nothing is; fires the timer if it is due.
  void settle() {
    for (;;) {
      if (timer && timer->due_ms <= now + calendar_off_ms) {
        ASSERT_TRUE(give(core::TimerFired{timer->key, timer->due_ms}));
        continue;
      }
      const auto asked = actions.find("plan");
      if (asked == actions.end()) return;
      const core::Action action = std::move(asked->second);
      actions.erase(asked);
      if (!zones_work) {
        core::ActionFinished failed{.path = action.path, .token = action.token};
        failed.outcome = core::Outcome::not_done;
        failed.code = base::Code::io_error;
        failed.message = "no zones";
        ASSERT_TRUE(give(std::move(failed)));
        continue;
      }
      const std::string text = action.input_slot->bytes.substr(action.input_slot->bytes.find('\n') + 1);
      const auto question = decode_question(text);
      ASSERT_TRUE(question) << text;
      const auto plan = make_plan(*question, Calendar::make(question->timing).value(), UtcZone(), "2026a");
      ASSERT_TRUE(give(answer(action, "7\n" + encode(plan))));
    }
  }
  void go_to(std::int64_t moment) {
    now = moment;
    settle();
  }
  /// Moment by moment, as an engine that is always there.
  void live_until(std::int64_t moment) {
    while (timer && timer->due_ms <= moment) go_to(timer->due_ms);
    go_to(moment);
  }
  void end_run(const std::string& fire, RunEnd how = RunEnd::completed) {
    const auto found = actions.find(kRunPath + fire);
    ASSERT_NE(found, actions.end()) << fire;
    const core::Action action = std::move(found->second);
    actions.erase(found);
    ASSERT_TRUE(give(answer(action, encode_end(how, base::Code::ok))));
    settle();
  }
  void end_all() {
    while (!state.open.empty()) end_run(state.open.begin()->first);
  }
  std::uint64_t all_skipped() const {
    std::uint64_t sum = 0;
    for (const auto& [reason, count] : skipped) sum += count;
    return sum;
  }
};

TEST(Schedule, EachMomentHasOneRunNamedByItsInstant) {
  World world(every_ten_seconds(Overlap::skip));
  world.settle();
  ASSERT_TRUE(world.timer);
  EXPECT_EQ(world.timer->due_ms, kStart + kTick);
  for (int i = 1; i <= 5; ++i) {
    world.go_to(kStart + i * kTick);
    ASSERT_EQ(world.state.open.size(), 1U);
    EXPECT_EQ(world.started.back(), moment_text(kStart + i * kTick));
    EXPECT_EQ(world.state.open.begin()->second.version, "7");
    world.end_all();
  }
  EXPECT_EQ(world.state.completed, 5U);
  EXPECT_EQ(world.all_skipped(), 0U);
  EXPECT_FALSE(ScheduleDecider::in_flight(world.state));
}

/// FR-52: a wake-up that comes too early, and one that comes twice.
TEST(Schedule, AWakeUpIsAHintAndAMomentIsDecidedOnce) {
  World world(every_ten_seconds(Overlap::allow_all));
  world.settle();
  const auto hint = *world.timer;
  world.go_to(kStart + kTick);
  EXPECT_EQ(world.started.size(), 1U);
  ASSERT_TRUE(world.give(core::TimerFired{hint.key, hint.due_ms}));
  world.settle();
  EXPECT_EQ(world.started.size(), 1U);
}

/// FR-51, ADV-E9: the clock goes back an hour, and ahead an hour.
TEST(Schedule, AClockThatIsSetNeitherDoublesNorLosesFires) {
  World world(every_ten_seconds(Overlap::allow_all));
  world.settle();
  world.live_until(kStart + 3 * kTick);
  EXPECT_EQ(world.started.size(), 3U);
  world.calendar_off_ms = -3'600'000;
  world.go_to(kStart + 10 * kTick);
  EXPECT_EQ(world.started.size(), 3U) << "these moments have been";
  world.calendar_off_ms = 0;
  world.settle();
  EXPECT_EQ(world.started.size(), 10U);
  world.calendar_off_ms = 600'000;  // by ten minutes: sixty moments
  world.settle();
  EXPECT_EQ(world.started.size() + world.all_skipped(), 70U);
  EXPECT_EQ(std::set<std::string>(world.started.begin(), world.started.end()).size(), world.started.size());
}

/// FR-51, FR-54: asleep for 78 minutes.
TEST(Schedule, WhatWasMissedIsCaughtUpWithAsFarAsTheWindowGoes) {
  struct Mode {
    std::int64_t window_ms;
    std::uint32_t most;
    std::uint64_t starts;
  };
  for (const Mode& mode :
       {Mode{0, 100, 1}, Mode{86'400'000, 1, 1}, Mode{300'000, 100, 30}, Mode{86'400'000, 100, 100}}) {
    Definition definition = every_ten_seconds(Overlap::allow_all);
    definition.catch_up_ms = mode.window_ms;
    definition.catch_up_most = mode.most;
    World world(definition);
    world.settle();
    world.go_to(kStart + 78 * 60'000);
    EXPECT_EQ(world.started.size(), mode.starts);
    EXPECT_EQ(world.started.size() + world.skipped[SkipReason::late], 468U);
  }
}

/// FR-55: every moment is a start, a skip with its reason, or waits.
TEST(Schedule, OverlapPoliciesAccountForEveryMoment) {
  struct Expected {
    Overlap overlap;
    std::size_t started, waiting, stopped;
    std::map<SkipReason, std::uint64_t> skipped;
  };
  const std::vector<Expected> all = {
      {Overlap::skip, 1, 0, 0, {{SkipReason::overlap, 19}}},
      {Overlap::buffer_one, 1, 1, 0, {{SkipReason::buffer_full, 18}}},
      {Overlap::buffer_all, 1, 10, 0, {{SkipReason::buffer_full, 9}}},
      {Overlap::cancel_other, 1, 1, 1, {{SkipReason::overlap, 18}}},
      {Overlap::terminate_other, 1, 1, 1, {{SkipReason::overlap, 18}}},
      {Overlap::allow_all, 20, 0, 0, {}},
  };
  for (const Expected& expected : all) {
    World world(every_ten_seconds(expected.overlap));
    world.settle();
    world.live_until(kStart + 20 * kTick);
    EXPECT_EQ(world.started.size(), expected.started) << name_of(expected.overlap);
    EXPECT_EQ(world.state.waiting.size(), expected.waiting) << name_of(expected.overlap);
    EXPECT_EQ(world.stopped.size(), expected.stopped) << name_of(expected.overlap);
    EXPECT_EQ(world.skipped, expected.skipped) << name_of(expected.overlap);
    EXPECT_EQ(world.started.size() + world.state.waiting.size() + world.all_skipped(), 20U);
    EXPECT_LE(world.state.recent.size(), kRecentKept);
    world.end_all();
    EXPECT_TRUE(world.state.waiting.empty()) << name_of(expected.overlap);
  }
}

TEST(Schedule, RunsOfOneSessionNeverOverlap) {
  Definition definition = every_ten_seconds(Overlap::allow_all);
  definition.accumulates = true;
  EXPECT_EQ(check_definition(definition).error().code, base::Code::invalid_argument);
  definition.overlap = Overlap::buffer_all;
  EXPECT_TRUE(check_definition(definition));
}

TEST(Schedule, APausedOneSaysWhatItPassedOver) {
  World world(every_ten_seconds(Overlap::buffer_all));
  world.settle();
  world.live_until(kStart + 3 * kTick);  // one runs, two wait
  ASSERT_TRUE(world.give(PauseSchedule{"ann"}));
  EXPECT_EQ(world.skipped[SkipReason::paused], 2U);
  EXPECT_FALSE(world.timer);
  world.go_to(kStart + 10 * kTick);
  EXPECT_EQ(world.started.size(), 1U);
  ASSERT_TRUE(world.give(ResumeSchedule{"ann"}));
  world.settle();
  EXPECT_EQ(world.skipped[SkipReason::paused], 9U);
  world.end_all();
  world.live_until(kStart + 11 * kTick);
  EXPECT_EQ(world.started.back(), moment_text(kStart + 11 * kTick));
}

TEST(Schedule, ATriggerRunsAtOnceAlsoWhilePausedAndIsRefusedWhereItWouldBeSkipped) {
  World world(every_ten_seconds(Overlap::skip));
  world.settle();
  ASSERT_TRUE(world.give(PauseSchedule{"ann"}));
  ASSERT_TRUE(world.give(TriggerSchedule{"ann"}));
  ASSERT_EQ(world.started.size(), 1U);
  EXPECT_EQ(world.started[0], moment_text(kStart) + "/trigger-1");
  EXPECT_EQ(world.give(TriggerSchedule{"ann"}).error().code, base::Code::already_exists);
  world.end_all();
  ASSERT_TRUE(world.give(TriggerSchedule{"ann"}));
  EXPECT_EQ(world.started.back(), moment_text(kStart) + "/trigger-2");
}

TEST(Schedule, ABackfillRunsEachMomentOfItsTimeInOrder) {
  World world(every_ten_seconds(Overlap::skip));
  world.settle();
  ASSERT_TRUE(world.give(PauseSchedule{"ann"}));
  EXPECT_EQ(world.give(BackfillSchedule{kStart, kStart + 1, "ann"}).error().code,
            base::Code::invalid_argument);
  const auto most = static_cast<std::int64_t>(kMostBackfilled);
  EXPECT_EQ(world.give(BackfillSchedule{kStart - (most + 1) * kTick, kStart - kTick, "ann"}).error().code,
            base::Code::invalid_argument);
  ASSERT_TRUE(world.give(BackfillSchedule{kStart - 50 * kTick, kStart - kTick, "ann"}));
  world.settle();
  for (int i = 0; i < 100 && !world.state.open.empty(); ++i) {
    ASSERT_EQ(world.state.open.size(), 1U);
    ASSERT_LE(world.state.waiting.size(), 2U * kBackfilledAtOnce);
    world.end_run(world.state.open.begin()->first);
  }
  ASSERT_EQ(world.started.size(), 50U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(world.started[static_cast<std::size_t>(i)],
              moment_text(kStart - (50 - i) * kTick) + "/backfill-1");
  }
  EXPECT_TRUE(world.state.backfills.empty());
}

TEST(Schedule, AfterAsManyFiresAsItMayHaveItSleepsForEver) {
  Definition definition = every_ten_seconds(Overlap::allow_all);
  definition.runs = 3;
  World world(definition);
  world.settle();
  world.live_until(kStart + 10 * kTick);
  EXPECT_EQ(world.started.size(), 3U);
  EXPECT_FALSE(world.timer);
  EXPECT_EQ(view::row_of(world.state).next_ms, 0);
}

TEST(Schedule, ZonesThatCannotBeReadAreAskedAgainAndNothingIsLost) {
  World world(every_ten_seconds(Overlap::allow_all));
  world.settle();
  world.zones_work = false;
  world.go_to(kStart + kTick);
  EXPECT_EQ(world.state.problem, base::Code::io_error);
  ASSERT_TRUE(world.timer);
  EXPECT_EQ(world.timer->due_ms, kStart + kTick + kRetryMs);
  world.zones_work = true;
  world.go_to(kStart + kTick + kRetryMs);
  EXPECT_EQ(world.started.size(), 7U);
  EXPECT_EQ(world.state.problem, base::Code::ok);
}

TEST(Schedule, ARunThatIsLostIsAttachedToAgainAndOneThatIsRefusedIsOver) {
  World world(every_ten_seconds(Overlap::skip));
  world.settle();
  world.go_to(kStart + kTick);
  const std::string path = kRunPath + world.started.back();
  const core::Action first = world.actions.at(path);
  core::ActionFinished lost{.path = path, .token = first.token};
  lost.outcome = core::Outcome::unknown;
  lost.code = base::Code::outcome_unknown;
  ASSERT_TRUE(world.give(lost));
  ASSERT_EQ(world.state.open.size(), 1U);
  const core::Action again = world.actions.at(path);
  EXPECT_NE(again.token, first.token);
  EXPECT_EQ(again.key, first.key);
  EXPECT_GT(again.not_before_ms, world.now);
  ASSERT_TRUE(world.give(lost)) << "a stale answer changes nothing";
  EXPECT_EQ(world.actions.at(path).token, again.token);
  core::ActionFinished refused{.path = path, .token = again.token};
  refused.outcome = core::Outcome::not_done;
  refused.code = base::Code::run_exists;
  ASSERT_TRUE(world.give(refused));
  EXPECT_TRUE(world.state.open.empty());
  EXPECT_EQ(world.state.recent.back().how, RunEnd::refused);
}

TEST(Schedule, WhatWasUnderWayIsAskedForAgainAfterARestart) {
  World world(every_ten_seconds(Overlap::allow_all));
  world.settle();
  world.go_to(kStart + kTick);
  world.now += kTick;
  ASSERT_TRUE(world.give(core::TimerFired{world.timer->key, world.timer->due_ms}));
  ASSERT_TRUE(ScheduleDecider::in_flight(world.state));
  std::vector<core::Action> pending;
  ScheduleDecider::pending(world.state, {.stream = world.id}, pending);
  ASSERT_EQ(pending.size(), 2U);
  EXPECT_EQ(pending[0].token, world.actions.at("plan").token);
  EXPECT_EQ(pending[0].input_slot->bytes, world.actions.at("plan").input_slot->bytes);
  EXPECT_EQ(pending[1].token, world.state.open.begin()->second.token);
}

TEST(Schedule, ADeletedOneHearsTheEndOfItsRunsAndItsNameCanBeUsedAgain) {
  World world(every_ten_seconds(Overlap::skip));
  world.settle();
  world.go_to(kStart + kTick);
  const std::string fire = world.started.back();
  const core::StreamId run = world.state.open.begin()->second.run;
  EXPECT_EQ(world.give(CreateSchedule{every_ten_seconds(Overlap::skip), {}, "ann"}).error().code,
            base::Code::already_exists);
  ASSERT_TRUE(world.give(DeleteSchedule{"ann"}));
  EXPECT_FALSE(world.timer);
  EXPECT_EQ(world.give(TriggerSchedule{"ann"}).error().code, base::Code::not_found);
  world.end_run(fire);
  EXPECT_TRUE(world.state.open.empty());
  ASSERT_TRUE(world.give(CreateSchedule{every_ten_seconds(Overlap::skip), {}, "ann"}));
  world.settle();
  ASSERT_TRUE(world.give(TriggerSchedule{"ann"}));
  EXPECT_NE(world.state.open.begin()->second.run, run);
}

TEST(Schedule, AnUpdateCountsFromNow) {
  World world(every_ten_seconds(Overlap::allow_all));
  world.settle();
  Definition definition = every_ten_seconds(Overlap::allow_all);
  definition.timing = {.crons = {"0 0 30 2 *"}};
  EXPECT_EQ(world.give(UpdateSchedule{definition, {}, true, "ann"}).error().code,
            base::Code::invalid_argument);
  definition.timing = {.intervals = {{.every_ms = 60'000}}};
  world.now = kStart + 5000;
  ASSERT_TRUE(world.give(UpdateSchedule{definition, {}, true, "ann"}));
  world.settle();
  EXPECT_EQ(world.timer->due_ms % 60'000, 0);
  EXPECT_TRUE(world.started.empty());
}

TEST(ScheduleRow, SurvivesItsBytes) {
  World world(every_ten_seconds(Overlap::buffer_all));
  world.settle();
  const auto row = view::row_of(world.state);
  EXPECT_EQ(row.rules, "every 10 s");
  EXPECT_EQ(row.next_ms, kStart + kTick);
  EXPECT_EQ(view::decode_row(view::encode_row(row)), row);
  EXPECT_FALSE(view::decode_row(view::encode_row(row) + "x"));
}

}  // namespace
}  // namespace sandglass::engine::schedule
