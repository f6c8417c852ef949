// Starting one command: fork, give up every right, wait at the barrier, execve. Single-threaded process only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/init/contained.h"

namespace sandglass::sandbox_runtime::init {

struct SpawnOptions {
  Identity identity;
  std::string workspace;
  int barrier_fd = -1;  // where the child presents itself; -1: nobody asks
  bool minded = false;  // no control groups: a minder holds the exec's processes together
};

/// What the child reports when it could not become the command.
struct StartFailure {
  std::int32_t stage = 0;  // index into kStages
  std::int32_t error = 0;  // errno
};
inline constexpr const char* kStages[] = {"",         "session", "output",  "limits",
                                          "identity", "cwd",     "barrier", "execve"};

struct Spawned {
  pid_t pid = -1;
  engine::base::UniqueFd in;   // write end; invalid without standard input
  engine::base::UniqueFd out;  // read ends
  engine::base::UniqueFd err;
  engine::base::UniqueFd go;       // one byte 'g' lets the child go on; closing it ends the child
  engine::base::UniqueFd failure;  // gives one StartFailure, or ends empty when execve has worked
  engine::base::UniqueFd minder;   // if minded: gives MinderWords; `pid` is the minder's then
};

/// All descriptors are non-blocking (but `go`) and close on exec.
engine::base::Result<Spawned> spawn(const frames::ExecStart& request, const SpawnOptions& options);

}  // namespace sandglass::sandbox_runtime::init
