#include "engine/schedule/types.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace sandglass::engine::schedule {

std::string_view name_of(Overlap overlap) {
  switch (overlap) {
    case Overlap::skip:
      return "skip";
    case Overlap::buffer_one:
      return "buffer-one";
    case Overlap::buffer_all:
      return "buffer-all";
    case Overlap::cancel_other:
      return "cancel-other";
    case Overlap::terminate_other:
      return "terminate-other";
    case Overlap::allow_all:
      return "allow-all";
  }
  return "unknown";
}

std::string_view name_of(SkipReason reason) {
  switch (reason) {
    case SkipReason::overlap:
      return "overlap";
    case SkipReason::late:
      return "late";
    case SkipReason::buffer_full:
      return "buffer full";
    case SkipReason::paused:
      return "paused";
    case SkipReason::deleted:
      return "deleted";
  }
  return "unknown";
}

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::schedule:
      return "schedule";
    case Cause::trigger:
      return "trigger";
    case Cause::backfill:
      return "backfill";
  }
  return "unknown";
}

std::string_view name_of(RunEnd end) {
  switch (end) {
    case RunEnd::completed:
      return "completed";
    case RunEnd::failed:
      return "failed";
    case RunEnd::cancelled:
      return "cancelled";
    case RunEnd::terminated:
      return "terminated";
    case RunEnd::refused:
      return "refused";
  }
  return "unknown";
}

std::optional<RunEnd> parse_run_end(std::string_view name) {
  for (const RunEnd end :
       {RunEnd::completed, RunEnd::failed, RunEnd::cancelled, RunEnd::terminated, RunEnd::refused}) {
    if (name_of(end) == name) return end;
  }
  return std::nullopt;
}

std::string moment_text(std::int64_t moment_ms) {
  using namespace std::chrono;  // NOLINT: the calendar's words
  const sys_time<milliseconds> at{milliseconds(moment_ms)};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(at - day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  std::string shown = text.data();
  if (time.subseconds().count() != 0) {
    std::snprintf(text.data(), text.size(), ".%03d", static_cast<int>(time.subseconds().count()));
    shown += text.data();
  }
  return shown + "Z";
}

core::StreamId schedule_stream(std::string_view tenant, std::string_view name) {
  return core::StreamId::for_request(core::StreamKind::schedule, tenant, name);
}

bool is_schedule_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' && name.front() != '.' &&
         std::ranges::all_of(name, plain);
}

}  // namespace sandglass::engine::schedule
