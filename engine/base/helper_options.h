// What the programs that work with descriptors of the supervisor (sandglass-effect, sandglass-egress) share:
// their command line and their ends.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::base {

struct HelperOptions {
  std::string socket;  // --socket PATH
  int socket_fd = -1;  // --socket-fd N
  int config_fd = -1;  // --config-fd N
  std::optional<uid_t> uid, gid, host_uid;
  pid_t parent = 0;  // getppid() at the start of main

  /// The uid or gid to take: as asked for, else that of this process.
  uid_t wanted_uid() const;
  gid_t wanted_gid() const;
};

inline constexpr int kHelperUsage = 64;
inline constexpr int kHelperConfig = 78;
inline constexpr int kHelperFailed = 1;

struct HelperProgram {
  const char* name;  // of its log lines
  const char* usage;
  std::initializer_list<std::string_view> options;  // those of the above that it knows
  bool (*is_complete)(const HelperOptions& options);
  int (*run)(const HelperOptions& options);
};

/// Body of main: --list-crash-points, the command line, then `run`. Gives the exit status.
int run_helper(const HelperProgram& program, int argc, char** argv);

/// Logs "NAME_cannot_start"; gives `status`.
int helper_cannot_start(const HelperProgram& program, const Error& error, int status);

}  // namespace sandglass::engine::base
