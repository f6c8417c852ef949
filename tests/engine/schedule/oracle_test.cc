// Every moment that the fast search gives, against a search that looks at each minute of years through the
// C library's own reading of the zones (FR-49, FR-52).
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "engine/schedule/occurrences.h"
#include "engine/schedule/zones/zones.h"

namespace sandglass::engine::schedule {
namespace {

constexpr std::int64_t kMinute = 60;

struct Period {
  const char* zone;
  std::int64_t begin_s;
  int days;
};

std::int64_t offset_at(std::int64_t at) {
  const std::time_t time = at;
  std::tm local{};
  ::localtime_r(&time, &local);
  return local.tm_gmtoff;
}

/// What the clocks of a place showed, a number a minute: minutes since 1970 as if it were UTC. Hours at both
/// ends of which they are equally ahead of UTC are not looked at more closely.
std::vector<std::int32_t> local_minutes(const Period& period) {
  ::setenv("TZ", period.zone, 1);
  ::tzset();
  std::vector<std::int32_t> minutes;
  for (std::int64_t hour = period.begin_s; hour < period.begin_s + period.days * 86'400LL; hour += 3600) {
    const std::int64_t offset = offset_at(hour);
    const bool changes = offset_at(hour + 3600) != offset;
    for (std::int64_t at = hour; at < hour + 3600; at += kMinute) {
      minutes.push_back(static_cast<std::int32_t>((at + (changes ? offset_at(at) : offset)) / kMinute));
    }
  }
  return minutes;
}

/// One of the values, a list, a range, a step, or all.
std::string random_field(std::mt19937& random, int first, int last) {
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  switch (draw(0, 5)) {
    case 0:
      return "*";
    case 1:
      return "*/" + std::to_string(draw(1, std::min(last, 20)));
    case 2: {
      const int from = draw(first, last);
      return std::to_string(from) + "-" + std::to_string(draw(from, last));
    }
    case 3: {
      const int from = draw(first, last);
      return std::to_string(from) + "-" + std::to_string(last) + "/" + std::to_string(draw(1, 7)) + "," +
             std::to_string(draw(first, last));
    }
    default:
      return std::to_string(draw(first, last));
  }
}

std::string random_cron(std::mt19937& random) {
  const auto often = [&] { return std::uniform_int_distribution<int>(0, 2)(random) > 0; };
  const std::string minute = random_field(random, 0, 59);
  const std::string hour = often() ? std::to_string(random() % 5) : random_field(random, 0, 23);
  const std::string day = often() ? "*" : random_field(random, 1, 28);
  const std::string month = often() ? "*" : random_field(random, 1, 12);
  return minute + " " + hour + " " + day + " " + month + " " + (often() ? "*" : random_field(random, 0, 7));
}

/// Whether local minutes fit, by the C library's calendar.
class Fit {
 public:
  explicit Fit(const Cron& cron) : cron_(cron) {}

  bool operator()(std::int64_t local_minute) {
    if (local_minute / 1440 != day_) look_at(local_minute / 1440);
    const auto minute = static_cast<int>(local_minute % 1440);
    return day_fits_ && has(cron_.hours, minute / 60) && has(cron_.minutes, minute % 60);
  }

 private:
  static bool has(std::uint64_t bits, int value) { return (bits >> value & 1) != 0; }
  void look_at(std::int64_t day) {
    day_ = day;
    const std::time_t time = day * 86'400;
    std::tm at{};
    ::gmtime_r(&time, &at);
    const bool by_date = has(cron_.days, at.tm_mday);
    const bool by_weekday = has(cron_.weekdays, at.tm_wday);
    const bool fits = cron_.any_day || cron_.any_weekday ? by_date && by_weekday : by_date || by_weekday;
    day_fits_ = fits && has(cron_.months, at.tm_mon + 1);
  }

  const Cron& cron_;
  std::int64_t day_ = -1;
  bool day_fits_ = false;
};

/// Moments of the cron, minute by minute.
std::vector<std::int64_t> by_minutes(const Cron& cron, const Period& period,
                                     const std::vector<std::int32_t>& minutes) {
  Fit fits(cron);
  std::vector<std::int64_t> found;
  std::int64_t shown = minutes.front() - 1;  // the latest that was shown
  for (std::size_t i = 0; i < minutes.size(); ++i) {
    bool fires = false;
    if (cron.every_hour()) {
      fires = fits(minutes[i]);
    } else {
      for (std::int64_t local = shown + 1; local <= minutes[i] && !fires; ++local) fires = fits(local);
    }
    shown = std::max<std::int64_t>(shown, minutes[i]);
    if (fires) found.push_back(period.begin_s + static_cast<std::int64_t>(i) * kMinute);
  }
  return found;
}

class Oracle : public testing::TestWithParam<Period> {};

TEST_P(Oracle, EachMinuteOfTwoYearsSaysTheSame) {
  const Period& period = GetParam();
  const auto minutes = local_minutes(period);
  const auto zone = zones::find_zone(period.zone);
  ASSERT_TRUE(zone) << zone.error().message;
  std::mt19937 random(20'240'501);
  std::vector<std::string> crons = {"30 2 * * *",    "30 1 * * *",  "0 0 * * *",      "*/10 * * * *",
                                    "15,45 * * * *", "0 9 30 12 *", "*/7 1-3 * * SUN"};
  while (crons.size() < 19) crons.push_back(random_cron(random));
  for (const std::string& text : crons) {
    const auto cron = parse_cron(text);
    ASSERT_TRUE(cron) << text << ": " << cron.error().message;
    const auto calendar = Calendar::make({.crons = {text}});
    std::int64_t at_ms = period.begin_s * 1000 - 1;
    for (const std::int64_t expected : by_minutes(*cron, period, minutes)) {
      const auto next = calendar->next(**zone, at_ms);
      ASSERT_EQ(next, expected * 1000) << text << " in " << period.zone << " after " << at_ms;
      at_ms = *next;
    }
    const auto next = calendar->next(**zone, at_ms);
    EXPECT_TRUE(!next || *next >= (period.begin_s + period.days * 86'400LL) * 1000) << text;
  }
}

// Two years each, with the clock changes that are known for trouble.
INSTANTIATE_TEST_SUITE_P(
    Zones, Oracle,
    testing::Values(Period{"Europe/Berlin", 1'735'689'600, 730},  // 2025
                    Period{"America/New_York", 1'735'689'600, 730},
                    Period{"Australia/Lord_Howe", 1'735'689'600, 730},  // by half an hour
                    Period{"Asia/Kolkata", 1'735'689'600, 366},
                    Period{"America/Sao_Paulo", 1'514'764'800, 730},    // 2018: at midnight
                    Period{"Pacific/Apia", 1'293'840'000, 730},         // 2011: without a 30 December
                    Period{"Africa/Casablanca", 1'704'067'200, 730}));  // 2024: around Ramadan

}  // namespace
}  // namespace sandglass::engine::schedule
