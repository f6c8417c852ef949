// Where no control group holds the processes of an exec together (rootless), a process of init's own does: it
// is the parent of the command and inherits whatever loses its parent below it, so that every process of the
// exec is below it for ever (FR-136). It says how the command ended and lives as long as one of them does.
// Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

namespace sandglass::sandbox_runtime::init {

/// What the minder says: once when the command was forked, once when it has ended.
struct MinderWord {
  pid_t command = -1;
  std::int32_t ended = 0;
  std::int32_t status = 0;   // of waitpid
  std::uint64_t cpu_ns = 0;  // of everything below the minder that has ended
};

/// Turns the calling process, a fork of init, into the minder: forks again for the command, keeps only
/// `report`.
[[noreturn]] void be_minder(int report, const std::function<void()>& become_command);

/// How many processes live below the minder.
std::size_t count_below(pid_t minder);
/// Ends them all: first they are stopped, so that none makes new ones unseen. False: some are left after two
/// seconds.
bool kill_below(pid_t minder);
/// For a command: it can no longer signal what is not below itself, the minder above all. 0 also where the
/// kernel cannot do that; then a killed minder is noticed and the sandbox's commands end with it.
int keep_signals_below();

}  // namespace sandglass::sandbox_runtime::init
