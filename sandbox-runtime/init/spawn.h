// Starting one command, in two steps: a child that has set itself up, is in its control groups and waits; and
// the command that it becomes. Between the two it holds nothing of any exec: root inside as init is, so that
// no command can reach it, without capabilities to gain and without environment. Single-threaded process
// only.
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
  int barrier_fd = -1;  // where a child presents itself
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
  engine::base::UniqueFd in;   // write end
  engine::base::UniqueFd out;  // read ends
  engine::base::UniqueFd err;
  engine::base::UniqueFd command;  // takes one command (become); closing it ends the child
  engine::base::UniqueFd failure;  // gives one StartFailure, or ends empty when execve has worked
  engine::base::UniqueFd minder;   // if minded: gives MinderWords; `pid` is the minder's then
};

/// A child that waits for its command; `barrier`: it passes the barrier before (launcher.h). All descriptors
/// are non-blocking (but `command`) and close on exec.
engine::base::Result<Spawned> spawn(std::uint64_t number, bool barrier, const SpawnOptions& options);
/// Gives the waiting child its command. False: it has ended.
bool become(const engine::base::UniqueFd& command, const frames::ExecStart& request);

}  // namespace sandglass::sandbox_runtime::init
