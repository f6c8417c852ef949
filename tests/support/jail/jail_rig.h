// A launcher in a folder of its own, real sandboxes with the shell init, and a look at what the machine
// holds. The destructor ends everything that it has started.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sandbox-runtime/provider/linux/linux_launcher.h"

namespace sandglass::tests {

struct CommandResult {
  int status = -1;  // of waitpid
  std::string output;
  bool ok() const { return status == 0; }
};

class Sandbox {
 public:
  Sandbox(sandbox_runtime::provider::Launcher& launcher, sandbox_runtime::provider::Launched launched);

  /// Runs a command through barrier and exec group, to its end.
  CommandResult run(const std::string& command, sandbox_runtime::provider::ExecLimits limits = {});
  /// As run, but returns when the command has been let go. finish() waits for its end.
  void begin(const std::string& command, sandbox_runtime::provider::ExecLimits limits = {});
  CommandResult finish();
  std::uint64_t last_exec() const { return exec_; }
  const std::string& id() const { return launched_.id; }
  sandbox_runtime::provider::Launched& launched() { return launched_; }
  const engine::base::UniqueFd& memory_event() const { return memory_event_; }

 private:
  sandbox_runtime::provider::Launcher* launcher_;
  sandbox_runtime::provider::Launched launched_;
  std::uint64_t exec_ = 0;
  engine::base::UniqueFd memory_event_;
};

/// What one rig's sandboxes could leave behind on the machine; other users of the machine do not show in it.
struct MachineState {
  std::vector<std::string> groups;  // control groups
  std::size_t mounts = 0;           // of this process's namespace, below the rig's folder
  std::vector<std::string> loops;   // devices in use
  std::vector<int> processes;       // in a network namespace of a sandbox; root sees them

  friend bool operator==(const MachineState&, const MachineState&) = default;
};
std::string describe(const MachineState& state);

/// The process that a pidfd stands for, as this process numbers it; -1 if it has ended.
int process_of(const engine::base::UniqueFd& pidfd);

/// Waits until `done` holds, at most `ms`; polls.
bool eventually(const std::function<bool()>& done, int ms);

/// Options with the programs of this build and the shell init.
sandbox_runtime::provider::linux_jail::LauncherOptions launcher_options(const std::string& folder,
                                                                        const std::string& folder_id,
                                                                        std::uint32_t adopt_grace_ms);
/// Folder of the build: bin/ has the programs.
std::string build_folder();

class JailRig {
 public:
  /// `parent`: where its folder is made.
  explicit JailRig(std::uint32_t adopt_grace_ms = 300, const std::string& parent = "/tmp");
  ~JailRig();

  sandbox_runtime::provider::Launcher& launcher() { return *launcher_; }
  /// Ends this host's side without destroying anything, then makes a new launcher on the same folder.
  void restart_host();
  void drop_host() { launcher_.reset(); }
  void start_host();
  MachineState machine_state() const;
  Sandbox make(sandbox_runtime::provider::Template tmpl = small_template());
  const std::string& folder() const { return folder_; }
  const std::string& folder_id() const { return folder_id_; }
  /// Process id of the keeper.
  int keeper_pid() const;

  /// A connection to a keeper's socket.
  static engine::base::UniqueFd connect_to(const std::string& path);

  /// 256 MiB, 64 pids, 32 MiB disk, 2000 inodes; rootless: memory and cpu best effort.
  static sandbox_runtime::provider::Template small_template();

 private:
  std::string folder_;
  std::string folder_id_;
  std::uint32_t adopt_grace_ms_;
  std::unique_ptr<sandbox_runtime::provider::Launcher> launcher_;
  int count_ = 0;
  std::set<std::string> networks_;  // namespaces of the sandboxes made so far
};

}  // namespace sandglass::tests
