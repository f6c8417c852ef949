#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sandglass::engine::base {

void check_failed(const char* file, int line, std::string_view text, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: check failed: %.*s (%.*s)\n", file, line, static_cast<int>(text.size()),
               text.data(), static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace sandglass::engine::base
