#include "engine/schedule/plan.h"

#include <charconv>
#include <concepts>
#include <utility>

namespace sandglass::engine::schedule {
namespace {

constexpr std::uint32_t kMostLookedAt = 50'000;  // at once; a schedule that slept longer asks again

template <class... Parts>
void put(std::string& out, std::string_view name, const Parts&... parts) {
  out += name;
  const auto one = [&out](const auto& part) {
    out += ' ';
    if constexpr (std::integral<std::remove_cvref_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += part;
    }
  };
  (one(parts), ...);
  out += '\n';
}

/// Takes words from the front of a line; `ok` turns false at the first that is not there.
struct Words {
  std::string_view rest;
  bool ok = true;

  std::string_view word() {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return taken;
  }
  template <class Number>
  Number number() {
    const std::string_view text = word();
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) ok = false;
    return value;
  }
  std::int64_t time() { return number<std::int64_t>(); }
  bool done() const { return ok && rest.empty(); }
};

/// Calls `take(name, words)` for every line; false ends it.
template <class Take>
bool each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    Words words{text.substr(0, end)};
    const std::string_view name = words.word();
    if (!take(name, words)) return false;
    text.remove_prefix(end + 1);
  }
  return true;
}

bool take_timing(Timing& timing, std::string_view name, Words& words) {
  if (name == "cron") {
    timing.crons.emplace_back(std::exchange(words.rest, {}));
  } else if (name == "every") {
    const std::int64_t every = words.time();
    timing.intervals.push_back({every, words.time()});
  } else if (name == "zone") {
    timing.zone = std::string(std::exchange(words.rest, {}));
  } else if (name == "start") {
    timing.start_ms = words.time();
  } else if (name == "end") {
    timing.end_ms = words.time();
  } else if (name == "jitter") {
    timing.jitter_ms = words.time();
  } else {
    return false;
  }
  return words.done();
}

void count(Passed& passed, std::int64_t moment_ms) {
  if (passed.count++ == 0) passed.first_ms = moment_ms;
  passed.last_ms = moment_ms;
}

}  // namespace

Plan make_plan(const Question& question, const Calendar& calendar, const Zone& zone, std::string zone_data) {
  Plan plan{.zone_data = std::move(zone_data), .covered_ms = question.after_ms};
  std::vector<Occurrence> kept;
  std::size_t first_kept = 0;
  auto moment = calendar.next(zone, question.after_ms);
  for (std::uint32_t looked = 0; moment; ++looked) {
    const auto following = calendar.next(zone, *moment);
    const Occurrence one{
        *moment, *moment + jitter_of(question.schedule, *moment, question.timing.jitter_ms, following)};
    if (one.due_ms > question.until_ms) {
      plan.next = one;
      break;
    }
    const bool full = kept.size() - first_kept == question.at_most;
    if (looked == kMostLookedAt || (full && question.oldest_first)) {
      plan.more = true;
      break;
    }
    if (one.due_ms < question.not_late_ms || question.at_most == 0) {
      count(plan.late, one.moment_ms);
    } else {
      if (full) count(plan.late, kept[first_kept++].moment_ms);
      kept.push_back(one);
    }
    plan.covered_ms = *moment;
    moment = following;
  }
  plan.due.assign(kept.begin() + static_cast<std::ptrdiff_t>(first_kept), kept.end());
  return plan;
}

std::string encode(const Question& question) {
  std::string out;
  const Timing& timing = question.timing;
  put(out, "question", question.after_ms, question.until_ms, question.not_late_ms, question.at_most,
      question.oldest_first ? 1 : 0);
  put(out, "schedule", question.schedule);
  put(out, "zone", timing.zone);
  for (const std::string& cron : timing.crons) put(out, "cron", cron);
  for (const Interval& interval : timing.intervals) put(out, "every", interval.every_ms, interval.offset_ms);
  put(out, "start", timing.start_ms);
  put(out, "end", timing.end_ms);
  put(out, "jitter", timing.jitter_ms);
  return out;
}

base::Result<Question> decode_question(std::string_view text) {
  Question question;
  const bool ok = each_line(text, [&](std::string_view name, Words& words) {
    if (name == "question") {
      question.after_ms = words.time();
      question.until_ms = words.time();
      question.not_late_ms = words.time();
      question.at_most = words.number<std::uint32_t>();
      question.oldest_first = words.time() != 0;
      return words.done();
    }
    if (name == "schedule") {
      question.schedule = std::string(words.rest);
      return true;
    }
    return take_timing(question.timing, name, words);
  });
  if (!ok) return base::fail(base::Code::invalid_argument, "this is no question of a schedule");
  return question;
}

std::string encode(const Plan& plan) {
  std::string out;
  put(out, "plan", plan.covered_ms, plan.more ? 1 : 0);
  put(out, "zone-data", plan.zone_data);
  if (plan.late.count != 0) put(out, "late", plan.late.count, plan.late.first_ms, plan.late.last_ms);
  for (const Occurrence& one : plan.due) put(out, "due", one.moment_ms, one.due_ms);
  if (plan.next) put(out, "next", plan.next->moment_ms, plan.next->due_ms);
  return out;
}

base::Result<Plan> decode_plan(std::string_view text) {
  Plan plan;
  bool begun = false;
  const auto occurrence = [](Words& words) {
    const std::int64_t moment = words.time();
    return Occurrence{moment, words.time()};
  };
  const bool ok = each_line(text, [&](std::string_view name, Words& words) {
    if (name == "plan") {
      begun = true;
      plan.covered_ms = words.time();
      plan.more = words.time() != 0;
    } else if (name == "zone-data") {
      plan.zone_data = std::string(std::exchange(words.rest, {}));
    } else if (name == "late") {
      plan.late.count = words.number<std::uint64_t>();
      plan.late.first_ms = words.time();
      plan.late.last_ms = words.time();
    } else if (name == "due") {
      plan.due.push_back(occurrence(words));
    } else if (name == "next") {
      plan.next = occurrence(words);
    } else {
      return false;
    }
    return words.done();
  });
  if (!ok || !begun) return base::fail(base::Code::invalid_argument, "this is no plan of a schedule");
  return plan;
}

}  // namespace sandglass::engine::schedule
