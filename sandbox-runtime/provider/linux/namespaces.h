// Namespaces and id maps of a jail. clone_child and write_maps run in the keeper, the rest in the child.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// fork into new mount, pid, ipc and uts namespaces, a net namespace unless one comes ready-made, rootless
/// also a user namespace, and into the v2 group `group_fd` unless -1. 0 in the child, the process id in the
/// parent, -1 with errno. `pidfd` is set in the parent.
pid_t clone_child(bool rootless, bool network, int group_fd, engine::base::UniqueFd& pidfd);
/// Enters the net namespace that the host has made.
int enter_network(int network_fd);

/// Root: inside 0..65535 → base… Rootless: inside 1000 → the keeper's own. The process must be in a user
/// namespace without maps. 0 or errno.
int write_maps(pid_t child, bool rootless, std::uint32_t uid_base);

/// Writes itself into each v1 group whose cgroup.procs is given (V5), then takes a control group namespace
/// and a session keyring of its own, sets the host name, and protects itself from the out-of-memory killer
/// (root).
int enter_groups(std::span<const int> procs_fds);
int leave_host_names(bool rootless);
/// Root. What the kernel counts for each user (inotify, pending signals, timers, message queues) it counts
/// for the owner of the user namespace as well: `owner` is a number of this sandbox alone and not root, whose
/// processes on the machine would go without.
int enter_user_namespace(std::uint32_t owner);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
