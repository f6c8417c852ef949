#include "engine/schedule/cron.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

namespace sandglass::engine::schedule {
namespace {

constexpr LocalSeconds kMinute = 60;
constexpr LocalSeconds kHour = 3600;
constexpr LocalSeconds kDay = 86'400;

struct Field {
  std::string_view name;
  int first = 0;
  int last = 0;
  std::string_view names;  // of three letters each, beginning with the value `first_named`
  int first_named = 0;
};
constexpr std::array<Field, 5> kFields = {{{"minute", 0, 59, {}},
                                           {"hour", 0, 23, {}},
                                           {"day of month", 1, 31, {}},
                                           {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", 1},
                                           {"day of week", 0, 7, "sunmontuewedthufrisat", 0}}};

struct Nickname {
  std::string_view name, fields;
};
constexpr std::array<Nickname, 7> kNicknames = {{{"@hourly", "0 * * * *"},
                                                 {"@daily", "0 0 * * *"},
                                                 {"@midnight", "0 0 * * *"},
                                                 {"@weekly", "0 0 * * 0"},
                                                 {"@monthly", "0 0 1 * *"},
                                                 {"@yearly", "0 0 1 1 *"},
                                                 {"@annually", "0 0 1 1 *"}}};

std::unexpected<base::Error> refused(const std::string& why) {
  return base::fail(base::Code::invalid_argument, "the cron expression is not valid: " + why);
}
std::unexpected<base::Error> refused(const Field& field, std::string_view item, const std::string& why) {
  return refused("\"" + std::string(item) + "\" in the field " + std::string(field.name) + ": " + why);
}

std::string allowed(const Field& field) {
  std::string text = "numbers from " + std::to_string(field.first) + " to " + std::to_string(field.last);
  if (!field.names.empty()) {
    text += " and names from " + std::string(field.names.substr(0, 3)) + " to " +
            std::string(field.names.substr(field.names.size() - 3));
  }
  return "it takes *, " + text + ", ranges (a-b), steps (*/n, a-b/n), and lists of these with commas";
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.size() > 2 || error != std::errc() || end != text.data() + text.size() ||
      text.front() == '-')
    return std::nullopt;
  return value;
}

std::optional<int> value_of(const Field& field, std::string_view text) {
  if (text.size() == 3 && !field.names.empty()) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    for (std::size_t at = 0; at < field.names.size(); at += 3) {
      if (field.names.substr(at, 3) == lower) return field.first_named + static_cast<int>(at / 3);
    }
    return std::nullopt;
  }
  const auto value = number(text);
  return value && *value >= field.first && *value <= field.last ? value : std::nullopt;
}

/// One of a list: *, a, a-b, with a step behind * and a-b.
base::Result<std::uint64_t> item_bits(const Field& field, std::string_view item) {
  const std::size_t slash = item.find('/');
  const std::string_view range = item.substr(0, slash);
  int step = 1;
  if (slash != std::string_view::npos) {
    const auto given = number(item.substr(slash + 1));
    if (!given || *given == 0 || *given > field.last)
      return refused(field, item, "a step is a number from 1 to " + std::to_string(field.last));
    step = *given;
  }
  int first = field.first;
  int last = field.last;
  if (range != "*") {
    const std::size_t dash = range.find('-');
    const auto from = value_of(field, range.substr(0, dash));
    if (!from) return refused(field, item, allowed(field));
    if (dash == std::string_view::npos && slash != std::string_view::npos)
      return refused(field, item,
                     "a step needs a range: " + std::to_string(*from) + "-" + std::to_string(field.last) +
                         "/" + std::to_string(step));
    const auto to = dash == std::string_view::npos ? from : value_of(field, range.substr(dash + 1));
    if (!to) return refused(field, item, allowed(field));
    if (*to < *from)
      return refused(field, item, "the range runs backwards; write it as two, with a comma between them");
    first = *from;
    last = *to;
  }
  std::uint64_t bits = 0;
  for (int value = first; value <= last; value += step) bits |= std::uint64_t{1} << value;
  return bits;
}

base::Result<std::uint64_t> field_bits(const Field& field, std::string_view text) {
  std::uint64_t bits = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    auto item = item_bits(field, text.substr(at, comma - at));
    if (!item) return item;
    bits |= *item;
    at = comma + 1;
  }
  return bits;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !is_blank(text[end])) ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

bool has_bit(std::uint64_t bits, unsigned value) {
  return (bits >> value & 1) != 0;
}

/// Some date has such a day and month. Weekdays all come round.
bool is_possible(const Cron& cron) {
  if (!cron.any_day && !cron.any_weekday) return true;
  constexpr std::array<unsigned, 13> kLengths = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  for (unsigned month = 1; month <= 12; ++month) {
    const std::uint64_t days_there = (std::uint64_t{2} << kLengths[month]) - 2;
    if (has_bit(cron.months, month) && (cron.days & days_there) != 0) return true;
  }
  return false;
}

base::Result<Cron> parse_nickname(std::string_view word) {
  for (const Nickname& nickname : kNicknames) {
    if (nickname.name == word) return parse_cron(nickname.fields);
  }
  return refused("there is no " + std::string(word) +
                 "; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually");
}

bool fits_day(const Cron& cron, std::chrono::sys_days day) {
  const std::chrono::year_month_day date(day);
  if (!has_bit(cron.months, static_cast<unsigned>(date.month()))) return false;
  const bool by_date = has_bit(cron.days, static_cast<unsigned>(date.day()));
  const bool by_weekday = has_bit(cron.weekdays, std::chrono::weekday(day).c_encoding());
  return cron.any_day || cron.any_weekday ? by_date && by_weekday : by_date || by_weekday;
}

/// The first minute of a day, counted from its midnight, that fits and is at or after `from`.
std::optional<LocalSeconds> first_in_day(const Cron& cron, LocalSeconds from) {
  const auto hour = static_cast<unsigned>(from / kHour);
  const auto minute = static_cast<unsigned>(from % kHour / kMinute);
  for (unsigned h = hour; h < 24; ++h) {
    if (!has_bit(cron.hours, h)) continue;
    const std::uint64_t left = cron.minutes >> (h == hour ? minute : 0) << (h == hour ? minute : 0);
    if (left != 0) return h * kHour + std::countr_zero(left) * kMinute;
  }
  return std::nullopt;
}

}  // namespace

base::Result<Cron> parse_cron(std::string_view text) {
  if (text.size() > kLongestCron)
    return refused("it is longer than " + std::to_string(kLongestCron) + " bytes");
  const auto words = words_of(text);
  if (words.size() == 1 && words[0].front() == '@') return parse_nickname(words[0]);
  if (words.size() != kFields.size())
    return refused("it has " + std::to_string(words.size()) +
                   " fields; it needs five: minute, hour, day of month, month, day of week");
  std::array<std::uint64_t, 5> bits{};
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    auto field = field_bits(kFields[i], words[i]);
    if (!field) return std::unexpected(field.error());
    bits[i] = *field;
  }
  const std::uint64_t sunday = bits[4] >> 7 & 1;
  const Cron cron{.minutes = bits[0],
                  .hours = static_cast<std::uint32_t>(bits[1]),
                  .days = static_cast<std::uint32_t>(bits[2]),
                  .months = static_cast<std::uint16_t>(bits[3]),
                  .weekdays = static_cast<std::uint8_t>((bits[4] | sunday) & 0x7F),
                  .any_day = words[2].front() == '*',
                  .any_weekday = words[4].front() == '*'};
  if (!is_possible(cron))
    return refused("no month that it names has such a day, so that it would never fire");
  return cron;
}

std::optional<LocalSeconds> first_fit(const Cron& cron, LocalSeconds from, LocalSeconds end) {
  using std::chrono::days;
  using std::chrono::sys_days;
  if (from < end && from % kMinute != 0) from += kMinute - (from % kMinute + kMinute) % kMinute;
  while (from < end) {
    const auto day = std::chrono::floor<days>(std::chrono::sys_seconds(std::chrono::seconds(from)));
    const LocalSeconds midnight = std::chrono::sys_seconds(day).time_since_epoch().count();
    const std::chrono::year_month_day date(day);
    if (!has_bit(cron.months, static_cast<unsigned>(date.month()))) {
      const auto next = date.year() / date.month() / 1 + std::chrono::months(1);
      from = std::chrono::sys_seconds(sys_days(next)).time_since_epoch().count();
      continue;
    }
    if (fits_day(cron, day)) {
      if (const auto minute = first_in_day(cron, from - midnight)) {
        const LocalSeconds found = midnight + *minute;
        return found < end ? std::optional(found) : std::nullopt;
      }
    }
    from = midnight + kDay;
  }
  return std::nullopt;
}

}  // namespace sandglass::engine::schedule
