// Control groups at two levels (V9): <root>/<name> is the sandbox with its ceiling, below it `init` and one
// `e<number>` per exec. v1 hierarchies and the unified tree side by side: each controller is used where the
// machine has it, the unified tree always for its kill switch. Thread rule: any thread, one call at a time
// per sandbox.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

enum class Controller : std::uint8_t { memory, pids, cpu, cpuacct };

/// A sandbox's part of the processors when they are scarce: an eighth of what one process outside has by
/// default; cpu.shares in v1, cpu.weight in the unified tree. All processes of the server together have eight
/// times that (V2). More for them was no quicker when measured, and takes from the kernel's own threads,
/// which sync their journal.
inline constexpr std::uint64_t kSandboxShares = 128;
inline constexpr std::uint64_t kSandboxWeight = 12;
inline constexpr std::uint64_t kServerFactor = 8;

/// The server's group: beside the sandboxes' groups, with their prefix, and a name that no sandbox can have.
inline constexpr const char* kServerGroup = "_server";

/// Open counters of an exec's group: to read them is a tenth of opening them by name. Where the machine has
/// none they are invalid and read as nothing.
struct Gauge {
  engine::base::UniqueFd memory_peak, memory_events, pids, pids_events, cpu;
};

class Cgroups {
 public:
  /// Looks at the mounts of this process. `usable` false: nothing is made and nothing is held (rootless).
  static Cgroups find(bool usable);

  bool has(Controller controller) const { return root_of(controller) != nullptr; }
  /// A unified tree with cgroup.kill.
  bool has_kill_switch() const;

  /// Makes the sandbox's groups and sets its limits. On failure nothing is left.
  engine::base::Status make(const std::string& name, const Limits& limits) const;
  /// cgroup.procs of the v1 groups that the child must write itself into, and the v2 folder for
  /// CLONE_INTO_CGROUP.
  engine::base::Result<std::vector<engine::base::UniqueFd>> init_groups(const std::string& name) const;
  engine::base::UniqueFd init_leaf(const std::string& name) const;

  /// The group of an exec with its limits. On failure nothing is left.
  engine::base::Status make_exec_group(const std::string& name, std::uint64_t exec,
                                       const ExecLimits& limits) const;
  engine::base::Status set_exec_limits(const std::string& name, std::uint64_t exec,
                                       const ExecLimits& limits) const;
  /// See Launcher::make_exec.
  engine::base::Result<engine::base::UniqueFd> exec_event(const std::string& name, std::uint64_t exec) const;
  /// Lets the process at the other end of `barrier` enter the exec's groups (launcher.h).
  engine::base::Status place(const std::string& name, std::uint64_t exec, pid_t pid, int barrier) const;
  /// Looks whether it did, and moves it if it did not.
  engine::base::Status admit(const std::string& name, std::uint64_t exec, pid_t pid) const;
  engine::base::Status kill_exec(const std::string& name, std::uint64_t exec) const;
  engine::base::Status remove_exec(const std::string& name, std::uint64_t exec) const;

  /// Makes the server's group if it is not there, with its part of the processors. Nothing without a cpu
  /// controller.
  engine::base::Result<engine::base::UniqueFd> make_server_group(const std::string& name) const;
  /// False: something is still in it.
  bool remove_server_group(const std::string& name) const;
  /// Part of the processors of the group that this process is in: in units of a sandbox's. 0: not known.
  std::uint64_t own_cpu_factor() const;

  Gauge gauge(const std::string& name, std::uint64_t exec) const;
  static Usage usage(const Gauge& gauge);
  static std::vector<LimitHit> pids_hits(const Gauge& gauge);

  /// Lifts the quota, thaws, and kills everything in the sandbox; waits until it is empty (V12).
  engine::base::Status end(const std::string& name) const;
  /// Removes all groups of an ended sandbox, with retries; provider_failed names the group that stays.
  engine::base::Status remove(const std::string& name) const;

  /// Names of sandbox groups that begin with `prefix`, sorted, in any hierarchy.
  std::vector<std::string> list(const std::string& prefix) const;
  /// Folders that still exist for `name`.
  std::vector<std::string> remains(const std::string& name) const;

 private:
  struct Root {
    std::string path;
    bool unified = false;
    std::vector<Controller> controllers;
    /// The unified tree without a controller holds no exec; the sandbox's leaf in it is its kill switch.
    bool holds_execs() const { return !unified || !controllers.empty(); }
  };

  const Root* root_of(Controller controller) const;
  const Root* unified() const;
  std::string file(Controller controller, const std::string& group, const char* v1, const char* v2) const;
  engine::base::UniqueFd counter(Controller controller, const std::string& group, const char* v1,
                                 const char* v2) const;
  engine::base::Status set(Controller controller, const std::string& group, const char* v1, const char* v2,
                           const std::string& value) const;
  engine::base::Status set_cpu_factor(const std::string& group, std::uint64_t factor) const;
  engine::base::Status set_memory(const std::string& group, std::uint64_t bytes) const;
  engine::base::Status make_folders(const std::string& group, bool of_exec) const;
  engine::base::Result<std::vector<engine::base::UniqueFd>> entries(const std::string& group) const;
  bool is_in(const std::string& group, pid_t pid, bool or_below) const;
  engine::base::Result<engine::base::UniqueFd> memory_event(const std::string& group) const;
  engine::base::Status kill_group(const std::string& group) const;
  engine::base::Status remove_group(const std::string& group) const;
  bool is_empty(const std::string& group) const;
  std::vector<std::string> subgroups(const Root& root, const std::string& group) const;

  std::vector<Root> roots_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
