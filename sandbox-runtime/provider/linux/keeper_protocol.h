// What the launcher (in sandglass-host) and sandglass-keeper say to each other: fixed structures over a
// SOCK_SEQPACKET socket, descriptors beside them, each with a role. One request, one reply (list: several,
// the last without `more`).
#pragma once

#include <cstdint>

#include "sandbox-runtime/provider/linux/stage.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

inline constexpr std::uint32_t kKeeperMagic = 0x53474b50;  // "SGKP"
inline constexpr std::uint32_t kKeeperVersion = 2;
inline constexpr int kKeeperListenFd = 3;  // listening socket for later hosts
inline constexpr int kKeeperPeerFd = 4;    // connection of the host that started it
inline constexpr std::size_t kIdBytes = 48;
inline constexpr std::size_t kMaxRoles = 24;

enum class KeeperOp : std::uint32_t {
  launch = 1,
  list = 2,
  forget = 3,  // SIGKILL if it lives, close all copies
  hello = 4,   // the reply's pid is the keeper's own
};

enum class FdRole : std::uint8_t {
  none = 0,
  plan = 1,
  init = 2,
  control_inside = 3,
  barrier_inside = 4,
  control_host = 5,  // copies for a later host
  barrier_host = 6,
  gate = 7,   // SOCK_SEQPACKET by which the host's parts come
  leaf = 8,   // folder of the v2 group
  group = 9,  // cgroup.procs of a v1 group; may occur several times
  pidfd = 10,
  listener = 11,
  etc = 12,    // the shared /etc, a detached mount
  image = 13,  // the disk's unlinked file, for the host that erases it
  base = 14,   // the root so far, a detached mount
};

struct KeeperRequest {
  std::uint32_t magic = kKeeperMagic;
  std::uint32_t version = kKeeperVersion;
  KeeperOp op = KeeperOp::list;
  std::uint32_t fd_count = 0;
  char id[kIdBytes] = {};  // opaque to the keeper
  FdRole roles[kMaxRoles] = {};
};

struct KeeperReply {
  std::uint32_t magic = kKeeperMagic;
  std::uint32_t more = 0;
  std::int32_t error = 0;  // 0 or errno
  Stage stage = Stage::none;
  std::int32_t pid = 0;
  std::uint32_t fd_count = 0;
  char id[kIdBytes] = {};
  FdRole roles[kMaxRoles] = {};
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
