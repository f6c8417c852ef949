// The system call allow-list (S2). The filter is made in the host and loaded by the child as bytes.
#pragma once

#include <linux/filter.h>

#include <span>
#include <vector>

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// Foreign entries (32-bit, x32) end the process; refused calls give EPERM, EAFNOSUPPORT (sockets) or ENOSYS
/// (calls that a libc falls back from, and everything that the list does not name).
std::vector<sock_filter> build_filter();

/// Loads it for the calling thread and its children; no_new_privs must be set. 0 or errno.
int load_filter(std::span<const sock_filter> filter);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
