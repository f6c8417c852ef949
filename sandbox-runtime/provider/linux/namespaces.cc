#include "sandbox-runtime/provider/linux/namespaces.h"

#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::UniqueFd;

pid_t clone_child(bool rootless, bool network, int group_fd, UniqueFd& pidfd) {
  int fd = -1;
  clone_args args{};
  args.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
  if (network) args.flags |= CLONE_NEWNET;
  if (rootless) args.flags |= CLONE_NEWUSER;
  args.pidfd = reinterpret_cast<std::uint64_t>(&fd);
  args.exit_signal = SIGCHLD;
  if (group_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(group_fd);
  }
  const long pid = ::syscall(__NR_clone3, &args, sizeof args);
  if (pid > 0) pidfd.reset(fd);
  return static_cast<pid_t>(pid);
}

int enter_network(int network_fd) {
  return ::setns(network_fd, CLONE_NEWNET) == 0 ? 0 : errno;
}

int write_maps(pid_t child, bool rootless, std::uint32_t uid_base) {
  const std::string folder = "/proc/" + std::to_string(child) + "/";
  const std::string inside = std::to_string(rootless ? kCommandUid : 0);
  const std::string count = rootless ? "1" : "65536";
  if (rootless) {
    if (const int error = write_file(folder + "setgroups", "deny")) return error;
  }
  const std::string uid = std::to_string(rootless ? ::geteuid() : uid_base);
  const std::string gid = std::to_string(rootless ? ::getegid() : uid_base);
  if (const int error = write_file(folder + "gid_map", inside + " " + gid + " " + count)) return error;
  return write_file(folder + "uid_map", inside + " " + uid + " " + count);
}

int enter_groups(std::span<const int> procs_fds) {
  for (const int fd : procs_fds) {
    if (!write_all(fd, "0")) return errno;
  }
  return 0;
}

int leave_host_names(bool rootless) {
  constexpr int kJoinSessionKeyring = 1;
  if (::unshare(CLONE_NEWCGROUP) != 0) return errno;
  ::syscall(__NR_keyctl, kJoinSessionKeyring, nullptr);  // a kernel without keyrings has nothing to inherit
  if (::sethostname("sandbox", 7) != 0 || ::setdomainname("", 0) != 0) return errno;
  // Segments of shared memory end with their last user, so that none outlives its exec (B18). Where /proc/sys
  // cannot be written they still count for the sandbox and end with it.
  write_file("/proc/sys/kernel/shm_rmid_forced", "1");
  if (rootless) {
    // Counted for this user on the machine as well (enter_user_namespace), who has 128 unless somebody chose.
    write_file("/proc/sys/user/max_inotify_instances", "32");
    return 0;
  }
  // Init is not a victim of the out-of-memory killer (V9). Where root lacks CAP_SYS_RESOURCE it stays an
  // ordinary one, smaller than any command; `doctor` says so.
  const int error = write_file("/proc/self/oom_score_adj", "-1000");
  return error == EACCES ? 0 : error;
}

int enter_user_namespace(std::uint32_t owner) {
  constexpr auto kStays = static_cast<uid_t>(-1);
  if (::setresgid(kStays, owner, kStays) != 0 || ::setresuid(kStays, owner, kStays) != 0) return errno;
  // The effective privilege goes with the number; where only the privileged make user namespaces it is
  // needed.
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(__NR_capget, &header, data) != 0) return errno;
  for (auto& word : data) word.effective = word.permitted;
  if (::syscall(__NR_capset, &header, data) != 0) return errno;
  return ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
