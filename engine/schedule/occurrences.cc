#include "engine/schedule/occurrences.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace sandglass::engine::schedule {
namespace {

constexpr std::int64_t kHorizonS = 40LL * 366 * 86'400;

std::int64_t floor_div(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

/// What `cron` gives at or after `from_s` within one span of a zone. `earlier_offset_s`: of the span before.
std::optional<std::int64_t> first_in_span(const Cron& cron, const Zone::Span& span,
                                          std::int64_t earlier_offset_s, std::int64_t from_s,
                                          std::int64_t end_s) {
  LocalSeconds local = from_s + span.offset_s;
  if (!cron.every_hour()) {
    const LocalSeconds seen = span.begin_s + earlier_offset_s;  // local times before it have been
    const LocalSeconds begins = span.begin_s + span.offset_s;
    if (seen < begins && from_s == span.begin_s && first_fit(cron, seen, begins)) return span.begin_s;
    local = std::max(local, seen);
  }
  const auto found = first_fit(cron, local, end_s + span.offset_s);
  return found ? std::optional(*found - span.offset_s) : std::nullopt;
}

std::optional<std::int64_t> next_of_cron(const Cron& cron, const Zone& zone, std::int64_t after_ms) {
  std::int64_t from_s = floor_div(after_ms, 1000) + 1;
  const std::int64_t until_s = from_s + kHorizonS;
  while (from_s < until_s) {
    const Zone::Span span = zone.at(from_s);
    const bool first = span.begin_s < -kHorizonS * 10;  // nothing was before
    const std::int64_t earlier = first ? span.offset_s : zone.at(span.begin_s - 1).offset_s;
    const Zone::Span bounded{
        .begin_s = first ? from_s : span.begin_s, .end_s = span.end_s, .offset_s = span.offset_s};
    const std::int64_t end_s = std::min(span.end_s, until_s);
    if (const auto found = first_in_span(cron, bounded, earlier, from_s, end_s)) return *found * 1000;
    from_s = end_s;
  }
  return std::nullopt;
}

std::int64_t next_of_interval(const Interval& interval, std::int64_t after_ms) {
  return (floor_div(after_ms - interval.offset_ms, interval.every_ms) + 1) * interval.every_ms +
         interval.offset_ms;
}

base::Status check(const Interval& interval) {
  if (interval.every_ms < kShortestInterval || interval.every_ms > kLongestInterval)
    return base::fail(base::Code::invalid_argument,
                      "an interval is at least one second and at most ten years");
  if (interval.offset_ms < 0 || interval.offset_ms >= interval.every_ms)
    return base::fail(base::Code::invalid_argument,
                      "an interval's offset is not negative and less than the interval");
  return {};
}

}  // namespace

base::Result<Calendar> Calendar::make(const Timing& timing) {
  const std::size_t rules = timing.crons.size() + timing.intervals.size();
  if (rules == 0 || rules > kMostRules)
    return base::fail(base::Code::invalid_argument, "a schedule has 1 to " + std::to_string(kMostRules) +
                                                        " cron expressions and intervals; this one has " +
                                                        std::to_string(rules));
  if (timing.end_ms != 0 && timing.end_ms <= timing.start_ms)
    return base::fail(base::Code::invalid_argument, "the schedule's end is not after its start");
  if (timing.jitter_ms < 0 || timing.jitter_ms > 86'400'000)
    return base::fail(base::Code::invalid_argument, "jitter is from 0 to one day");
  Calendar made;
  for (const std::string& text : timing.crons) {
    auto cron = parse_cron(text);
    if (!cron) return std::unexpected(cron.error());
    made.crons_.push_back(*cron);
  }
  for (const Interval& interval : timing.intervals) {
    if (auto checked = check(interval); !checked) return std::unexpected(checked.error());
    made.intervals_.push_back(interval);
  }
  made.start_ms_ = timing.start_ms;
  made.end_ms_ = timing.end_ms;
  return made;
}

std::optional<std::int64_t> Calendar::next(const Zone& zone, std::int64_t after_ms) const {
  after_ms = std::max(after_ms, start_ms_ - 1);
  std::optional<std::int64_t> next;
  const auto take = [&](std::optional<std::int64_t> one) {
    if (one && (!next || *one < *next)) next = one;
  };
  for (const Cron& cron : crons_) take(next_of_cron(cron, zone, after_ms));
  for (const Interval& interval : intervals_) take(next_of_interval(interval, after_ms));
  return next && (end_ms_ == 0 || *next < end_ms_) ? next : std::nullopt;
}

std::int64_t jitter_of(std::string_view schedule, std::int64_t moment_ms, std::int64_t jitter_ms,
                       std::optional<std::int64_t> next_ms) {
  if (next_ms) jitter_ms = std::min(jitter_ms, *next_ms - moment_ms);
  if (jitter_ms <= 0) return 0;
  const base::Hash256 hash = base::Sha256()
                                 .update("sandglass schedule jitter 1")
                                 .update_u64(schedule.size())
                                 .update(schedule)
                                 .update_u64(static_cast<std::uint64_t>(moment_ms))
                                 .finish();
  std::uint64_t drawn = 0;
  for (std::size_t i = 0; i < 8; ++i) drawn = drawn << 8 | hash.bytes[i];
  return static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(jitter_ms));
}

}  // namespace sandglass::engine::schedule
