// The two lists that the system call filter is made of. Calls with rules of their own (socket, socketpair,
// ioctl, clone, personality, setrlimit, prlimit64, sync) are in neither; clone3, io_uring_* and everything
// unnamed answer ENOSYS.
#pragma once

#include <span>

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// Allowed with any arguments.
std::span<const int> allowed_calls();
/// Known, and refused with EPERM.
std::span<const int> refused_calls();

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
