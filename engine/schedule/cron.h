// Cron expressions: "minute hour day-of-month month day-of-week", or @hourly, @daily, @midnight, @weekly,
// @monthly, @yearly, @annually. Lists, ranges, steps over ranges and *, names of months and weekdays; 0 and 7
// are Sunday. As in Vixie's cron a day counts if day-of-month or day-of-week fits, when both are restricted;
// a field that begins with * restricts nothing, and then both must fit. Expressions that no date can fit (30
// February) are refused.
//
// Here are fields and a local calendar only; what a local time is in a time zone is occurrences.h.
// Thread rule: pure functions. Errors: invalid_argument, naming the field and what may stand in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::schedule {

inline constexpr std::size_t kLongestCron = 256;

/// One bit a value.
struct Cron {
  std::uint64_t minutes = 0;
  std::uint32_t hours = 0;
  std::uint32_t days = 0;     // bits 1 to 31
  std::uint16_t months = 0;   // bits 1 to 12
  std::uint8_t weekdays = 0;  // bits 0 (Sunday) to 6
  bool any_day = false;       // its field begins with *
  bool any_weekday = false;
  friend bool operator==(const Cron&, const Cron&) = default;

  /// Fires in every hour of the days that it fires on: it follows the minutes as they pass.
  bool every_hour() const { return hours == (1U << 24) - 1; }
};

base::Result<Cron> parse_cron(std::string_view text);

/// Seconds of a local calendar, counted as if it were UTC.
using LocalSeconds = std::int64_t;

/// The first minute that fits in [from, end), both of the local calendar; nothing if there is none.
std::optional<LocalSeconds> first_fit(const Cron& cron, LocalSeconds from, LocalSeconds end);

}  // namespace sandglass::engine::schedule
