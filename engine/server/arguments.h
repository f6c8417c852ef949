// Command lines of sandglassd and sandglass-engine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/exit_code.h"
#include "engine/base/result.h"

namespace sandglass::engine::server {

struct ServerArguments {
  std::string data;
  std::string config;
  std::vector<std::string> settings;  // --set, then those of $SANDGLASS_SET that come first
  bool exit_when_idle = false;
  bool list_crash_points = false;
  int ready_fd = -1;
  int control_fd = -1;
  int effect_fd = -1;
  std::optional<uid_t> uid, gid;  // of the engine's own; else those of the caller
};

enum class ServerProgram { supervisor, engine };

/// The arguments, or the exit code with which to end (help was printed, or the command line is not valid).
std::expected<ServerArguments, base::Exit> parse_arguments(ServerProgram program, int argc, char** argv);

/// Prints "program: error CODE: message" to standard error; gives the exit code.
base::Exit report(const char* program, const base::Error& error);

}  // namespace sandglass::engine::server
