// What a schedule asks whoever knows the time zones, and the answer, which it records: the decider itself
// never looks at a zone, so that newer zone data changes what comes, never what was (E1). Both travel as
// text, a line a fact. Thread rule: pure functions. Errors: invalid_argument for a text that is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/occurrences.h"

namespace sandglass::engine::schedule {

/// The moments after `after_ms` whose time, jitter included, has come at `until_ms`.
struct Question {
  std::string schedule;  // whose jitter it is
  Timing timing;
  std::int64_t after_ms = 0;
  std::int64_t until_ms = 0;
  std::int64_t not_late_ms = 0;  // what was due before this is only counted
  std::uint32_t at_most = 0;     // of the others
  bool oldest_first = false;     // more than `at_most`: the first ones, and the rest is asked for again; else
                                 // the last ones, and the others are counted as late
  friend bool operator==(const Question&, const Question&) = default;
};

struct Occurrence {
  std::int64_t moment_ms = 0;
  std::int64_t due_ms = 0;  // with its jitter
  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

struct Passed {
  std::uint64_t count = 0;
  std::int64_t first_ms = 0, last_ms = 0;  // moments
  friend bool operator==(const Passed&, const Passed&) = default;
};

struct Plan {
  std::string zone_data;        // its version
  std::int64_t covered_ms = 0;  // the last moment that is in `late` or `due`; else `after_ms`
  bool more = false;            // ask again from there
  Passed late;
  std::vector<Occurrence> due;     // in order
  std::optional<Occurrence> next;  // nothing: never again, if there is not more
  friend bool operator==(const Plan&, const Plan&) = default;
};

Plan make_plan(const Question& question, const Calendar& calendar, const Zone& zone, std::string zone_data);

std::string encode(const Question& question);
base::Result<Question> decode_question(std::string_view text);
std::string encode(const Plan& plan);
base::Result<Plan> decode_plan(std::string_view text);

}  // namespace sandglass::engine::schedule
