// One launch: clone, hand-over, maps. Runs in the keeper's thread and returns when init was executed or the
// child has ended. Strings of the plan are never looked at.
#pragma once

#include <sys/types.h>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/jail.h"

namespace sandglass::sandbox_runtime::keeper {

struct LaunchResult {
  int error = 0;  // 0 or errno
  provider::linux_jail::Stage stage = provider::linux_jail::Stage::none;
  pid_t pid = 0;
  engine::base::UniqueFd pidfd;
  engine::base::UniqueFd listener;
};

/// `plan_fd` is checked here. `fds.talk` is filled in. `leaf`: v2 group folder or -1.
LaunchResult launch_jail(int plan_fd, provider::linux_jail::JailFds fds, int leaf);

}  // namespace sandglass::sandbox_runtime::keeper
