// One packet with descriptors over a SOCK_SEQPACKET socket. Thread rule: one call at a time per socket and
// direction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

inline constexpr std::size_t kMaxPacketFds = 32;

/// False with errno set. Never raises SIGPIPE. With MSG_DONTWAIT in `flags` it never waits for a peer that
/// does not read.
bool send_packet(int socket, const void* bytes, std::size_t size, std::span<const int> fds, int flags = 0);

/// Bytes received (0: the other side is gone), or -1 with errno; EMSGSIZE if it was longer than `size` or
/// carried more descriptors than allowed. Descriptors are close-on-exec.
ssize_t receive_packet(int socket, void* bytes, std::size_t size, std::vector<engine::base::UniqueFd>& fds);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
