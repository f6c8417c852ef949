#include "engine/base/crash_point.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

extern "C" {
// Bounds of the section that SG_CRASH_POINT writes to; the linker provides them where the section exists.
extern const char* const __start_sg_crash_points[] __attribute__((weak));
extern const char* const __stop_sg_crash_points[] __attribute__((weak));
}

namespace sandglass::engine::base {
namespace {

struct Wanted {
  std::string name;
  long passage = 1;
};

Wanted wanted_from_environment() {
  Wanted wanted;
  const char* text = std::getenv("SANDGLASS_CRASH_AT");
  if (text == nullptr) return wanted;
  wanted.name = text;
  if (const auto colon = wanted.name.rfind(':'); colon != std::string::npos) {
    wanted.passage = std::strtol(wanted.name.c_str() + colon + 1, nullptr, 10);
    wanted.name.resize(colon);
  }
  return wanted;
}

}  // namespace

std::vector<std::string_view> crash_points() {
  std::vector<std::string_view> names;
  if (__start_sg_crash_points != nullptr) names.assign(__start_sg_crash_points, __stop_sg_crash_points);
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

void pass_crash_point(std::string_view name) {
  static const Wanted wanted = wanted_from_environment();
  static std::atomic<long> passages = 0;
  if (wanted.name != name) return;
  if (++passages == wanted.passage) kill(getpid(), SIGKILL);
}

}  // namespace sandglass::engine::base
