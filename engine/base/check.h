// Invariants. SG_CHECK stays in release builds: an engine that has lost an invariant must stop, not go on.
#pragma once

#include <string_view>

namespace sandglass::engine::base {

/// Writes "file:line: check failed: text (detail)" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view text, std::string_view detail);

}  // namespace sandglass::engine::base

#define SG_CHECK(condition, detail)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::sandglass::engine::base::check_failed(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)
