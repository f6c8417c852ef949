#include "replay-tools/cli/times.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

namespace sandglass::replay_tools::cli {
namespace {

using base::Code;

constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
constexpr std::int64_t kLongest = 100LL * 366 * 86'400'000;

std::unexpected<base::Error> no_duration(const std::string& text) {
  return base::fail(Code::usage, "\"" + text + "\" is no duration; write 90s, 5m, 1h30m or 7d");
}
std::unexpected<base::Error> no_moment(const std::string& text) {
  return base::fail(Code::usage, "\"" + text + "\" is no moment; write 2026-03-29T01:30:00Z, which is UTC");
}

/// A whole number of exactly so many digits from the front.
bool take(std::string_view& text, std::size_t digits, int& value) {
  if (text.size() < digits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || text.front() == '-') return false;
  text.remove_prefix(digits);
  return true;
}
bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

base::Result<std::int64_t> parse_duration(const std::string& text) {
  std::int64_t sum = 0;
  std::string_view rest = text;
  if (rest.empty()) return no_duration(text);
  while (!rest.empty()) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
    if (error != std::errc() || rest.front() == '-' || count > kLongest) return no_duration(text);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const std::size_t letters = std::min(rest.find_first_of("0123456789"), rest.size());
    const auto* unit =
        std::ranges::find(kUnits, rest.substr(0, letters), &std::pair<std::string_view, std::int64_t>::first);
    if (unit == std::end(kUnits) || count > kLongest / unit->second) return no_duration(text);
    sum += count * unit->second;
    if (sum > kLongest) return no_duration(text);
    rest.remove_prefix(letters);
  }
  return sum;
}

base::Result<std::int64_t> parse_moment(const std::string& text) {
  using namespace std::chrono;  // NOLINT: the calendar's words
  std::string_view rest = text;
  int y = 0, m = 0, d = 0, hour = 0, minute = 0, second = 0;
  if (!take(rest, 4, y) || !take(rest, '-') || !take(rest, 2, m) || !take(rest, '-') || !take(rest, 2, d))
    return no_moment(text);
  if (!rest.empty()) {
    if (!take(rest, 'T') || !take(rest, 2, hour) || !take(rest, ':') || !take(rest, 2, minute))
      return no_moment(text);
    if (take(rest, ':') && !take(rest, 2, second)) return no_moment(text);
    if (rest != "Z") return no_moment(text);
  }
  const year_month_day date = year(y) / m / d;
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return no_moment(text);
  const auto at = sys_days(date) + hours(hour) + minutes(minute) + seconds(second);
  return duration_cast<milliseconds>(at.time_since_epoch()).count();
}

}  // namespace sandglass::replay_tools::cli
