// Durations and moments as people write them. Thread rule: pure functions. Errors: usage.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/result.h"

namespace sandglass::replay_tools::cli {

namespace base = engine::base;

/// "90s", "5m", "1h30m", "7d", "250ms": milliseconds.
base::Result<std::int64_t> parse_duration(const std::string& text);
/// "2026-03-29", "2026-03-29T01:30Z", "2026-03-29T01:30:00Z": milliseconds since 1970; always in UTC.
base::Result<std::int64_t> parse_moment(const std::string& text);

}  // namespace sandglass::replay_tools::cli
