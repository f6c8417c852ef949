// A part of a test that changes what the machine's folders hold, in a mount namespace that nobody else sees.
// A plain user's is in a user namespace of its own as well, with the one id: what others own it cannot
// change.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

namespace sandglass::tests::support {

inline bool unshare_mounts() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNS | (uid == "0" ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid != "0") {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << gid << " " << gid << " 1";
    if (std::to_string(::geteuid()) != uid) return false;
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// In a process and a mount namespace of its own; the process's status as of waitpid, 0 if `test` was true.
inline int in_own_mounts(const std::function<bool()>& test) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(unshare_mounts() && test() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace sandglass::tests::support
