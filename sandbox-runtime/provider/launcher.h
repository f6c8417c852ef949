// The host's side of sandbox making: jails, their exec groups, their end. Used by sandglass-host only. Says
// nothing of leases, frames or networks beyond the descriptors that it hands out.
//
// What the program sandglass-init finds when it starts as pid 1 of a jail:
//   fd 0-2  /dev/null
//   fd 3    control: one end of a connected SOCK_SEQPACKET pair; the other end is Launched::control. Packets,
//           not a stream: a host that dies inside a message must leave no half of it to its successor
//   fd 4    barrier: one end of a connected SOCK_SEQPACKET pair; the other end is Launched::barrier
//   all others closed; empty environment but SANDGLASS_INIT_MODE=root|rootless; cwd /workspace; no_new_privs
//   and the seccomp filter are set; it may only be killed from outside. It must call prctl(PR_SET_DUMPABLE,
//   0) at once. root: uid 0 inside with CAP_SETUID, CAP_SETGID, CAP_SETPCAP and CAP_KILL; a command's child
//   empties the bounding set, sets groups {}, gid 1000, uid 1000 (in that order) before it execs. rootless:
//   uid 1000 inside, no capabilities, init and commands share the one uid.
//
// The barrier (V5, nothing is ever runnable outside its cgroup), packets over fd 4:
//   child → host  at most 64 bytes, but not 16: a child that init has forked for an exec presents itself, and
//                 goes on setting itself up. The host receives it with SCM_CREDENTIALS: the kernel vouches
//                 for the sender's process id
//   host → child  by Launcher::place(): the exec's number (8 bytes) and descriptors, into each of which the
//                 child writes "0" and closes it: so it enters its groups itself, which costs a tenth of a
//                 millisecond, while moving it from outside takes a lock of the whole machine for tens of
//                 them
//   child → host  number and a word (16 bytes): it has entered; Launcher::admit() looks whether that is so
// Then it waits for its command, which init gives it when the host says so: by ExecGo, or at once by an
// ExecStart for which the child was made ready and admitted ahead. One child at a time is at the barrier (a
// POSIX lock on fd 4); a packet for another number is dropped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider {

/// Where the proxy listener of a sandbox with a network is, seen from inside (V4).
inline constexpr std::uint16_t kProxyPort = 3128;
/// uid and gid of commands inside.
inline constexpr std::uint32_t kCommandUid = 1000;
inline constexpr int kControlFd = 3;
inline constexpr int kBarrierFd = 4;
inline constexpr int kKeeperFd = 5;  // pidfd of the keeper: init ends with it

struct Launched {
  std::string id;
  engine::base::UniqueFd control;     // SOCK_SEQPACKET to init
  engine::base::UniqueFd barrier;     // SOCK_SEQPACKET with SO_PASSCRED set
  engine::base::UniqueFd listener;    // listening TCP socket 127.0.0.1:3128 inside; invalid without network
  engine::base::UniqueFd pidfd;       // readable when pid 1 has ended
  std::vector<LimitSupport> support;  // what holds the limits here; goes into the lease event (V10)
};

/// Counters of one exec.
struct Usage {
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t cpu_ns = 0;
  std::uint64_t pids = 0;
  std::uint64_t disk_bytes = 0;  // whole sandbox only
  std::uint64_t inodes = 0;      // whole sandbox only
  std::vector<LimitHit> limits_hit;
};

struct InventoryEntry {
  std::string id;
  bool alive = false;                // pid 1 runs
  std::vector<std::string> remains;  // "cgroup memory", "process 42" …: what is still there
};

/// Thread rule: every function may be called from any thread; calls for different sandboxes run side by side,
/// calls for one sandbox must come one after another. All of them block (create 5-10 ms, destroy up to
/// seconds).
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// What this machine can enforce, found by doing, cached for the process's life.
  virtual const std::vector<LimitSupport>& support() = 0;
  /// The limits and the protections beside them, for `doctor`.
  virtual std::vector<Feature> features() = 0;

  /// Makes the jail and starts init in it. On failure nothing is left behind. Codes: invalid_argument,
  /// already_exists, limit_unenforceable, disk_full, provider_failed.
  virtual engine::base::Result<Launched> create(const SandboxSpec& spec) = 0;

  /// The sandboxes that a keeper of an earlier host of this data folder still holds (V1). Call once, before
  /// create; afterwards they are this launcher's own. Their exec groups are still there.
  virtual engine::base::Result<std::vector<Launched>> adopt() = 0;

  /// Whether execs have groups. Without (rootless) init holds the processes of an exec together.
  virtual bool has_groups() const = 0;
  /// An exec group below the sandbox. `exec` is a number that the host has not used for this sandbox before.
  /// Answers a descriptor that becomes readable when a process of the group was ended for lack of memory: the
  /// host then ends the exec (V9). It is invalid where the machine cannot tell (rootless: no groups, nothing
  /// held).
  virtual engine::base::Result<engine::base::UniqueFd> make_exec(const std::string& id, std::uint64_t exec,
                                                                 const ExecLimits& limits) = 0;
  /// Sets the limits of an exec group anew; they are no more than those that it was made with.
  virtual engine::base::Status limit_exec(const std::string& id, std::uint64_t exec,
                                          const ExecLimits& limits) = 0;
  /// Lets process `pid` (as received from the barrier) enter the exec group and makes it an ordinary victim
  /// of the out-of-memory killer again. sandbox_lost if it has ended or is not of this sandbox.
  virtual engine::base::Status place(const std::string& id, std::uint64_t exec, pid_t pid) = 0;
  /// Looks whether `pid` is in the exec group, and moves it there from outside if it is not. After this it
  /// may go on. Codes as of place().
  virtual engine::base::Status admit(const std::string& id, std::uint64_t exec, pid_t pid) = 0;
  /// Ends every process of the exec with SIGKILL and waits until the group is empty (≤ 2 s). Rootless there
  /// is no group: init does it (frames::Signal with `all`), and this only says so by doing nothing.
  virtual engine::base::Status kill_exec(const std::string& id, std::uint64_t exec) = 0;
  virtual engine::base::Result<Usage> exec_usage(const std::string& id, std::uint64_t exec) = 0;
  /// The limits that can be hit without an end to the exec: pids, disk, inodes. Cheap, for looking while it
  /// runs: the kernel counts refused forks, but of a full disk it only knows that it is full now.
  virtual engine::base::Result<std::vector<LimitHit>> exec_hits(const std::string& id,
                                                                std::uint64_t exec) = 0;
  /// Removes the empty exec group; kills what is still in it.
  virtual engine::base::Status remove_exec(const std::string& id, std::uint64_t exec) = 0;

  /// V12. Succeeds only after it has verified that no process, mount, control group or loop device of the
  /// sandbox is left; also for an id that is gone already. provider_failed names what remains.
  virtual engine::base::Status destroy(const std::string& id) = 0;

  /// Everything on this machine that carries this data folder's prefix, alive or left over.
  virtual engine::base::Result<std::vector<InventoryEntry>> inventory() = 0;
  /// Destroys every entry of the inventory that this launcher did not create itself. Returns their ids.
  virtual engine::base::Result<std::vector<std::string>> sweep() = 0;
};

}  // namespace sandglass::sandbox_runtime::provider
