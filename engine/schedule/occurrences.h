// When a schedule fires: the one place that computes it (FR-53). Cron expressions are local times of a zone:
//
//   the hour is restricted ("30 2 * * *")     a local time that a clock change leaves out fires once, at the
//                                             first moment after the gap; one that comes twice fires the
//                                             first time only (FR-49)
//   every hour ("*/10 * * * *")               follows the minutes as they pass: each whose local time fits
//                                             fires, also when that time comes a second time
//
// Intervals count from 1970 plus their offset and know no zone. Jitter comes from the schedule and the
// moment alone.
// Thread rule: pure functions; a Zone is only read. Units: milliseconds since 1970 in UTC.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/cron.h"

namespace sandglass::engine::schedule {

/// Port: what the clocks of a place show.
class Zone {
 public:
  /// From `begin_s` until before `end_s` they are `offset_s` ahead of UTC.
  struct Span {
    std::int64_t begin_s = std::numeric_limits<std::int64_t>::min();
    std::int64_t end_s = std::numeric_limits<std::int64_t>::max();
    std::int64_t offset_s = 0;
  };
  virtual ~Zone() = default;
  virtual Span at(std::int64_t utc_s) const = 0;
};

class UtcZone final : public Zone {
 public:
  Span at(std::int64_t) const override { return {}; }
};

struct Interval {
  std::int64_t every_ms = 0;
  std::int64_t offset_ms = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

inline constexpr std::int64_t kShortestInterval = 1000;
inline constexpr std::int64_t kLongestInterval = 10LL * 366 * 86'400 * 1000;
inline constexpr std::size_t kMostRules = 16;

/// What is written down, as it was given.
struct Timing {
  std::vector<std::string> crons;
  std::vector<Interval> intervals;
  std::string zone;            // IANA name; empty: UTC
  std::int64_t start_ms = 0;   // nothing before
  std::int64_t end_ms = 0;     // nothing at or after; 0: for ever
  std::int64_t jitter_ms = 0;  // each is delayed by up to this, and never until the next
  friend bool operator==(const Timing&, const Timing&) = default;
};

/// A timing that was checked.
class Calendar {
 public:
  /// Does not look at the zone's name. Errors: invalid_argument.
  static base::Result<Calendar> make(const Timing& timing);

  /// The first moment after `after_ms`; nothing: never again (within forty years).
  std::optional<std::int64_t> next(const Zone& zone, std::int64_t after_ms) const;

 private:
  std::vector<Cron> crons_;
  std::vector<Interval> intervals_;
  std::int64_t start_ms_ = 0;
  std::int64_t end_ms_ = 0;
};

/// How much later it fires than its moment: less than `jitter_ms`, and less than the time until the next.
std::int64_t jitter_of(std::string_view schedule, std::int64_t moment_ms, std::int64_t jitter_ms,
                       std::optional<std::int64_t> next_ms);

}  // namespace sandglass::engine::schedule
