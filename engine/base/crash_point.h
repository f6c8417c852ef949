// Named places where a test can end the process as SIGKILL would: SANDGLASS_CRASH_AT=name[:n] kills at the
// n-th passage (default 1). With SANDGLASS_CRASH_ONCE=file only the first process that gets there ends,
// whatever program it is and however often programs are started anew; the file then holds that process's id.
// Compiled to nothing unless the build has SANDGLASS_CRASH_POINTS (test builds).
#pragma once

#include <string_view>
#include <vector>

namespace sandglass::engine::base {

/// Names of all crash points linked into this program, sorted; empty in builds without them.
std::vector<std::string_view> crash_points();

/// If the only argument is --list-crash-points: prints their names, one a line, and returns true.
bool list_crash_points(int argc, const char* const* argv);

/// Kills this process with SIGKILL if the environment asked for it here. Thread rule: any thread.
void pass_crash_point(std::string_view name);

}  // namespace sandglass::engine::base

#ifdef SANDGLASS_CRASH_POINTS
#define SG_CRASH_POINT(name)                                                                             \
  do {                                                                                                   \
    [[gnu::section("sg_crash_points"), gnu::used]] static const char* const sg_crash_point_entry = name; \
    ::sandglass::engine::base::pass_crash_point(sg_crash_point_entry);                                   \
  } while (false)
#else
#define SG_CRASH_POINT(name) \
  do {                       \
  } while (false)
#endif
