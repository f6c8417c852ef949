#include "engine/base/crash_point.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
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

/// Opened before main: some programs give up their view of the files soon after.
const int once_fd = [] {
  const char* path = std::getenv("SANDGLASS_CRASH_ONCE");
  return path == nullptr ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}();

/// False: a process has ended at its crash point already.
bool is_first() {
  if (once_fd < 0) return std::getenv("SANDGLASS_CRASH_ONCE") == nullptr;
  struct stat info{};
  if (flock(once_fd, LOCK_EX) != 0 || fstat(once_fd, &info) != 0 || info.st_size != 0) {
    flock(once_fd, LOCK_UN);
    return false;
  }
  return dprintf(once_fd, "%d\n", static_cast<int>(getpid())) > 0;
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

bool list_crash_points(int argc, const char* const* argv) {
  if (argc != 2 || std::string_view(argv[1]) != "--list-crash-points") return false;
  for (const auto name : crash_points()) std::printf("%.*s\n", static_cast<int>(name.size()), name.data());
  return true;
}

void pass_crash_point(std::string_view name) {
  static const Wanted wanted = wanted_from_environment();
  static std::atomic<long> passages = 0;
  if (wanted.name != name) return;
  if (++passages == wanted.passage && is_first()) kill(getpid(), SIGKILL);
}

}  // namespace sandglass::engine::base
