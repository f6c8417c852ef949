// Where a bench finds the programs that it starts, and the tests' helpers that start them.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace sandglass::bench {

/// The build that this bench is of, or the one that $SANDGLASS_BUILD names; the variable says it from now on.
/// Call before threads start.
inline std::filesystem::path find_build() {
  if (const char* named = std::getenv("SANDGLASS_BUILD")) return named;
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  setenv("SANDGLASS_BUILD", build.c_str(), 0);
  return build;
}

}  // namespace sandglass::bench
