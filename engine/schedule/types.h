// What a schedule is made of: its definition, its fires, and why something did not run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/payload.h"
#include "engine/core/stream_id.h"
#include "engine/schedule/occurrences.h"

namespace sandglass::engine::schedule {

/// What becomes of a fire while a run of an earlier one is open. Stored.
enum class Overlap : std::uint8_t {
  skip = 1,
  buffer_one = 2,
  buffer_all = 3,  // up to the definition's `buffer`
  cancel_other = 4,
  terminate_other = 5,
  allow_all = 6,
};
inline constexpr std::array kOverlaps = {Overlap::skip,         Overlap::buffer_one,      Overlap::buffer_all,
                                         Overlap::cancel_other, Overlap::terminate_other, Overlap::allow_all};
std::string_view name_of(Overlap overlap);

/// Why a moment had no run (FR-55). Stored.
enum class SkipReason : std::uint8_t {
  overlap = 1,      // an earlier run is still open, or a later fire took its place
  late = 2,         // outside the catch-up window, or more than it may catch up with
  buffer_full = 3,  // as many as may wait do
  paused = 4,
  deleted = 5,
};
inline constexpr std::size_t kSkipReasons = 5;
std::string_view name_of(SkipReason reason);

/// Why a run is begun. Stored.
enum class Cause : std::uint8_t { schedule = 1, trigger = 2, backfill = 3 };
std::string_view name_of(Cause cause);

/// How a run ended. Stored.
enum class RunEnd : std::uint8_t {
  completed = 1,
  failed = 2,
  cancelled = 3,
  terminated = 4,
  refused = 5,  // it was never started
};
std::string_view name_of(RunEnd end);
std::optional<RunEnd> parse_run_end(std::string_view name);

inline constexpr std::size_t kLongestName = 64;
inline constexpr std::uint32_t kMostBuffered = 100;
inline constexpr std::size_t kMostRunning = 100;
inline constexpr std::size_t kMostBackfills = 8;
inline constexpr std::size_t kMostBackfilled = 10'000;  // moments of one of them
inline constexpr std::size_t kRecentKept = 20;

struct Definition {
  std::string name;
  std::string tenant;
  std::string user;  // the service identity that the runs are of
  std::string workflow;
  Timing timing;
  Overlap overlap = Overlap::skip;
  std::uint32_t buffer = 10;
  bool accumulates = false;  // all runs are of one session, hence never two at a time (K5)
  std::int64_t catch_up_ms = 3'600'000;
  std::uint32_t catch_up_most = 100;
  std::uint64_t runs = 0;  // how many fires there are in all; 0: no limit
  core::PayloadRef input;
  friend bool operator==(const Definition&, const Definition&) = default;
};

/// One moment that has a run, or waits for one. `id` names it within the schedule: the moment in UTC, with
/// what caused it if that was not the schedule itself (FR-53).
struct Fire {
  std::string id;
  std::int64_t moment_ms = 0;
  Cause cause = Cause::schedule;
  friend bool operator==(const Fire&, const Fire&) = default;
};

/// "2026-03-29T01:30:00Z"; with milliseconds where there are some.
std::string moment_text(std::int64_t moment_ms);

/// One stream a schedule.
core::StreamId schedule_stream(std::string_view tenant, std::string_view name);
bool is_schedule_name(std::string_view name);

}  // namespace sandglass::engine::schedule
