#include <gtest/gtest.h>

#include <chrono>

#include "engine/schedule/plan.h"
#include "engine/schedule/zones/zones.h"

namespace sandglass::engine::schedule {
namespace {

using namespace std::chrono;  // NOLINT: days and months read as what they are

std::int64_t utc(int year, unsigned month, unsigned day, int hour = 0, int minute = 0) {
  const sys_days date = std::chrono::year(year) / static_cast<int>(month) / static_cast<int>(day);
  return duration_cast<milliseconds>((date + hours(hour) + minutes(minute)).time_since_epoch()).count();
}

std::string refusal(const std::string& cron) {
  const auto parsed = parse_cron(cron);
  return parsed ? "taken" : parsed.error().message;
}

std::vector<std::int64_t> moments(const Timing& timing, std::int64_t after, std::int64_t until) {
  const auto calendar = Calendar::make(timing).value();
  const auto zone = zones::find_zone(timing.zone).value();
  std::vector<std::int64_t> found;
  for (auto at = calendar.next(*zone, after); at && *at < until; at = calendar.next(*zone, *at)) {
    found.push_back(*at);
  }
  return found;
}

TEST(Cron, RefusalsNameTheFieldAndWhatItTakes) {
  EXPECT_NE(refusal("61 * * * *").find("\"61\" in the field minute: it takes *, numbers from 0 to 59"),
            std::string::npos)
      << refusal("61 * * * *");
  EXPECT_NE(refusal("0 0 * * FRI-MON").find("backwards"), std::string::npos);
  EXPECT_NE(refusal("5/10 * * * *").find("5-59/10"), std::string::npos);
  EXPECT_NE(refusal("* * * *").find("4 fields; it needs five"), std::string::npos);
  EXPECT_NE(refusal("@reboot").find("@daily"), std::string::npos);
  for (const char* bad : {"",
                          "* * * * * *",
                          "a * * * *",
                          "*/0 * * * *",
                          "*/ * * * *",
                          "1, * * * *",
                          ", * * * *",
                          "1--2 * * * *",
                          "-1 * * * *",
                          "+1 * * * *",
                          "0 24 * * *",
                          "0 0 0 * *",
                          "0 0 32 * *",
                          "0 0 * 13 *",
                          "0 0 * * 8",
                          "0 0 L * *",
                          "0 0 * * 1#2",
                          "? * * * *",
                          "0x1 * * * *",
                          "001 * * * *",
                          "0 0 * JANUARY *",
                          "0 0 jan * *"}) {
    EXPECT_NE(refusal(bad), "taken") << bad;
  }
  EXPECT_EQ(refusal("0-30/10,45\t* 1,15 jan-MAR,Dec Mon-5,7"), "taken");
}

TEST(Cron, ADateThatNeverComesIsRefused) {
  for (const char* never : {"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 FEB *"}) {
    EXPECT_NE(refusal(never).find("would never fire"), std::string::npos) << never;
  }
  EXPECT_EQ(refusal("0 0 29 2 *"), "taken");
  EXPECT_EQ(refusal("0 0 30 2 1"), "taken");  // on Mondays of February
}

TEST(Cron, NicknamesAreWhatTheyStandFor) {
  EXPECT_EQ(parse_cron("@daily").value(), parse_cron("0 0 * * *").value());
  EXPECT_EQ(parse_cron("@weekly").value(), parse_cron("0 0 * * SUN").value());
  EXPECT_EQ(parse_cron("@yearly").value(), parse_cron("0 0 1 jan *").value());
  EXPECT_EQ(parse_cron("0 0 * * 7").value(), parse_cron("0 0 * * 0").value());
}

TEST(Cron, DayOfMonthOrDayOfWeekWhenBothAreRestricted) {
  const auto both = moments({.crons = {"0 12 13 * FRI"}}, utc(2026, 2, 1), utc(2026, 3, 1));
  EXPECT_EQ(both, (std::vector{utc(2026, 2, 6, 12), utc(2026, 2, 13, 12), utc(2026, 2, 20, 12),
                               utc(2026, 2, 27, 12)}));
  const auto and_with_star = moments({.crons = {"0 12 */2 * FRI"}}, utc(2026, 2, 1), utc(2026, 3, 1));
  EXPECT_EQ(and_with_star, (std::vector{utc(2026, 2, 13, 12), utc(2026, 2, 27, 12)}));
}

TEST(Cron, TheRareDayIsFound) {
  EXPECT_EQ(moments({.crons = {"0 0 29 2 *"}}, utc(2096, 3, 1), utc(2105, 1, 1)),
            std::vector{utc(2104, 2, 29)});
}

/// FR-49: at 02:30 on the days of both changes.
TEST(ClockChanges, ATimeThatIsLeftOutFiresOnceAfterTheGapAndOneThatComesTwiceOnce) {
  const Timing berlin{.crons = {"30 2 * * *"}, .zone = "Europe/Berlin"};
  EXPECT_EQ(moments(berlin, utc(2026, 3, 28, 12), utc(2026, 3, 30, 12)),
            (std::vector{utc(2026, 3, 29, 1), utc(2026, 3, 30, 0, 30)}));
  EXPECT_EQ(moments(berlin, utc(2026, 10, 24, 12), utc(2026, 10, 26, 12)),
            (std::vector{utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30)}));
  const Timing lord_howe{.crons = {"15 2 * * *"}, .zone = "Australia/Lord_Howe"};
  EXPECT_EQ(moments(lord_howe, utc(2026, 10, 3, 0), utc(2026, 10, 4, 0)),
            std::vector{utc(2026, 10, 3, 15, 30)});  // at 02:30, where the gap of half an hour ends
  const Timing apia{.crons = {"0 9 * * *"}, .zone = "Pacific/Apia"};
  EXPECT_EQ(moments(apia, utc(2011, 12, 29, 12), utc(2011, 12, 31, 12)),
            (std::vector{utc(2011, 12, 29, 19), utc(2011, 12, 30, 10), utc(2011, 12, 30, 19)}));
}

TEST(ClockChanges, EveryHourFollowsTheMinutesAsTheyPass) {
  const Timing berlin{.crons = {"*/30 * * * *"}, .zone = "Europe/Berlin"};
  for (const std::int64_t day : {utc(2026, 3, 29), utc(2026, 10, 25)}) {
    const auto found = moments(berlin, day - 1, day + 6LL * 3'600'000);
    ASSERT_EQ(found.size(), 12U);
    for (std::size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i] - found[i - 1], 1'800'000);
  }
}

/// FR-53: a zone does not depend on the machine's.
TEST(Zones, AreFoundByTheirNameAloneAndSayTheirVersion) {
  EXPECT_EQ(moments({.crons = {"0 9 * * *"}, .zone = "Asia/Tokyo"}, utc(2026, 1, 1), utc(2026, 1, 3)),
            std::vector{utc(2026, 1, 2)});
  for (const char* bad : {"Europe/Nowhere", "../../etc/passwd", "europe/berlin", "UTC+1", " "}) {
    const auto zone = zones::find_zone(bad);
    ASSERT_FALSE(zone) << bad;
    EXPECT_EQ(zone.error().code, base::Code::invalid_argument);
    EXPECT_NE(zone.error().message.find(bad), std::string::npos);
  }
  EXPECT_NE(zones::zone_data_version(), "");
}

TEST(Interval, CountsFrom1970PlusItsOffset) {
  const Timing timing{.intervals = {{.every_ms = 90'000, .offset_ms = 5'000}}};
  EXPECT_EQ(moments(timing, 0, 200'000), (std::vector<std::int64_t>{5'000, 95'000, 185'000}));
  EXPECT_FALSE(Calendar::make({.intervals = {{.every_ms = 999}}}));
  EXPECT_FALSE(Calendar::make({.intervals = {{.every_ms = 1000, .offset_ms = 1000}}}));
  EXPECT_FALSE(Calendar::make({}));
}

TEST(Timing, StartAndEndBoundIt) {
  const Timing timing{.crons = {"0 * * * *"}, .start_ms = utc(2026, 1, 1, 5), .end_ms = utc(2026, 1, 1, 8)};
  EXPECT_EQ(moments(timing, 0, utc(2030, 1, 1)),
            (std::vector{utc(2026, 1, 1, 5), utc(2026, 1, 1, 6), utc(2026, 1, 1, 7)}));
  EXPECT_FALSE(Calendar::make({.crons = {"@daily"}, .start_ms = 10, .end_ms = 10}));
}

TEST(Jitter, IsTheSameEachTimeAndNeverReachesTheNext) {
  std::int64_t least = 1'000'000, most = 0;
  for (std::int64_t moment = 0; moment < 1'000'000; moment += 1000) {
    const std::int64_t jitter = jitter_of("schedule-a", moment, 600'000, moment + 1000);
    EXPECT_EQ(jitter, jitter_of("schedule-a", moment, 600'000, moment + 1000));
    least = std::min(least, jitter);
    most = std::max(most, jitter);
  }
  EXPECT_LT(least, 100);
  EXPECT_GT(most, 900);
  EXPECT_LT(most, 1000);
  EXPECT_NE(jitter_of("schedule-a", 0, 600'000, {}), jitter_of("schedule-b", 0, 600'000, {}));
  EXPECT_EQ(jitter_of("schedule-a", 0, 0, {}), 0);
}

Question every_ten_seconds(std::int64_t after, std::int64_t until) {
  return {.schedule = "s",
          .timing = {.intervals = {{.every_ms = 10'000}}},
          .after_ms = after,
          .until_ms = until,
          .at_most = 100};
}

Plan plan_of(const Question& question) {
  return make_plan(question, Calendar::make(question.timing).value(), UtcZone(), "v");
}

/// FR-51: asleep for 78 minutes with a ten-second schedule.
TEST(Plan, AfterALongGapOnlyWhatTheWindowAndTheCapAllowIsDue) {
  const std::int64_t woken = 78 * 60'000;
  Question question = every_ten_seconds(0, woken);
  question.not_late_ms = woken - 5 * 60'000 + 1;
  Plan plan = plan_of(question);
  EXPECT_EQ(plan.due.size(), 30U);
  EXPECT_EQ(plan.late.count, 468U - 30U);
  EXPECT_EQ(plan.covered_ms, woken);
  EXPECT_EQ(plan.next, (Occurrence{woken + 10'000, woken + 10'000}));
  question.not_late_ms = 0;
  plan = plan_of(question);
  EXPECT_EQ(plan.due.size(), 100U);
  EXPECT_EQ(plan.due.back().moment_ms, woken);
  EXPECT_EQ(plan.late, (Passed{368, 10'000, 3'680'000}));
  question.at_most = 1;
  EXPECT_EQ(plan_of(question).due, (std::vector{Occurrence{woken, woken}}));
  question.at_most = 0;
  EXPECT_EQ(plan_of(question).late.count, 468U);
}

/// FR-52: a wake-up is a hint.
TEST(Plan, AWakeUpBeforeTheTimeFiresNothing) {
  const Plan plan = plan_of(every_ten_seconds(10'000, 19'999));
  EXPECT_TRUE(plan.due.empty());
  EXPECT_EQ(plan.covered_ms, 10'000);
  EXPECT_EQ(plan.next->moment_ms, 20'000);
}

TEST(Plan, OldestFirstGivesThemAllPieceByPiece) {
  Question question = every_ten_seconds(0, 1'000'000);
  question.oldest_first = true;
  question.at_most = 7;
  std::vector<std::int64_t> seen;
  for (bool more = true; more;) {
    const Plan plan = plan_of(question);
    EXPECT_EQ(plan.late.count, 0U);
    for (const Occurrence& one : plan.due) seen.push_back(one.moment_ms);
    question.after_ms = plan.covered_ms;
    more = plan.more;
  }
  ASSERT_EQ(seen.size(), 100U);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 10'000 * static_cast<std::int64_t>(i + 1));
}

TEST(Plan, AVeryLongSleepIsCountedInPieces) {
  Question question = every_ten_seconds(0, 10'000LL * 120'000);
  question.not_late_ms = question.until_ms;
  std::uint64_t counted = 0;
  int pieces = 0;
  for (bool more = true; more; ++pieces) {
    const Plan plan = plan_of(question);
    counted += plan.late.count + plan.due.size();
    question.after_ms = plan.covered_ms;
    more = plan.more;
  }
  EXPECT_EQ(counted, 120'000U);
  EXPECT_EQ(pieces, 3);
}

TEST(Plan, QuestionsAndPlansSurviveTheirText) {
  const Question question{.schedule = "schedule-0123",
                          .timing = {.crons = {"0 9 * * MON-FRI", "@daily"},
                                     .intervals = {{.every_ms = 1000, .offset_ms = 1}},
                                     .zone = "Europe/Berlin",
                                     .start_ms = -1,
                                     .end_ms = 2,
                                     .jitter_ms = 3},
                          .after_ms = -5,
                          .until_ms = 6,
                          .not_late_ms = 7,
                          .at_most = 8,
                          .oldest_first = true};
  EXPECT_EQ(decode_question(encode(question)), question);
  const Plan plan{.zone_data = "2026a",
                  .covered_ms = 9,
                  .more = true,
                  .late = {3, 1, 2},
                  .due = {{4, 5}, {6, 7}},
                  .next = Occurrence{8, 9}};
  EXPECT_EQ(decode_plan(encode(plan)), plan);
  EXPECT_EQ(decode_plan(encode(Plan{})), Plan{});
  for (const char* bad :
       {"", "plan", "plan 1\n", "plan 1 0 0\n", "plan x 0\n", "plan 1 0\ndue 1\n", "what 1\n"}) {
    EXPECT_FALSE(decode_plan(bad)) << bad;
  }
}

}  // namespace
}  // namespace sandglass::engine::schedule
