// A part of a test that changes what the machine's folders hold, in a mount namespace that nobody else sees.
// Needs root.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace sandglass::tests::support {

/// In a process and a mount namespace of its own; the process's status as of waitpid, 0 if `test` was true.
inline int in_own_mounts(const std::function<bool()>& test) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool alone =
        ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    ::_exit(alone && test() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace sandglass::tests::support
