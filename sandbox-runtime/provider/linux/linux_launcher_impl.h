// The class behind make_linux_launcher; for its two source files only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/base/system_ports.h"
#include "sandbox-runtime/provider/linux/base_trees.h"
#include "sandbox-runtime/provider/linux/cgroups.h"
#include "sandbox-runtime/provider/linux/keeper_link.h"
#include "sandbox-runtime/provider/linux/linux_launcher.h"
#include "sandbox-runtime/provider/linux/loop_disk.h"
#include "sandbox-runtime/provider/linux/plan.h"
#include "sandbox-runtime/provider/linux/sandbox_record.h"
#include "sandbox-runtime/provider/linux/uid_ranges.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

class LinuxLauncher final : public Launcher {
 public:
  LinuxLauncher(LauncherOptions options, bool rootless);
  /// The parts that can fail: the programs, the keeper.
  engine::base::Status open();
  pid_t keeper_pid() const { return keeper_->keeper_pid(); }

  const std::vector<LimitSupport>& support() override;
  std::vector<Feature> features() override;
  bool has_groups() const override { return !rootless_; }
  engine::base::Result<Launched> create(const SandboxSpec& spec) override;
  engine::base::Result<std::vector<Launched>> adopt() override;
  engine::base::Result<engine::base::UniqueFd> make_exec(const std::string& id, std::uint64_t exec,
                                                         const ExecLimits& limits) override;
  engine::base::Status limit_exec(const std::string& id, std::uint64_t exec,
                                  const ExecLimits& limits) override;
  engine::base::Status place(const std::string& id, std::uint64_t exec, pid_t pid) override;
  engine::base::Status admit(const std::string& id, std::uint64_t exec, pid_t pid) override;
  engine::base::Status kill_exec(const std::string& id, std::uint64_t exec) override;
  engine::base::Result<Usage> exec_usage(const std::string& id, std::uint64_t exec) override;
  engine::base::Result<std::vector<LimitHit>> exec_hits(const std::string& id, std::uint64_t exec) override;
  engine::base::Status remove_exec(const std::string& id, std::uint64_t exec) override;
  engine::base::Status destroy(const std::string& id) override;
  engine::base::Result<std::vector<InventoryEntry>> inventory() override;
  engine::base::Result<std::vector<std::string>> sweep() override;

 private:
  /// A sandbox that this launcher has made or adopted.
  struct Held {
    SandboxRecord record;
    pid_t pid = 0;
    engine::base::UniqueFd pidfd;
    engine::base::UniqueFd image;
    engine::base::UniqueFd barrier;
    engine::base::UniqueFd work;  // O_PATH of /workspace, once it was looked at; keeps the disk in use
    std::map<std::uint64_t, Gauge> gauges;  // of its execs, once they were looked at
  };
  static ExecLimits exec_limits(const SandboxRecord& record, const ExecLimits& asked);
  /// What a create has taken so far; undone unless it succeeds.
  struct Making;

  Feature try_sandbox();
  std::string group_of(const std::string& id) const { return prefix_ + id; }
  std::string record_path(const std::string& id) const {
    return options_.folder + "/" + prefix_ + id + ".jail";
  }
  engine::base::Result<std::shared_ptr<Held>> find(const std::string& id);
  engine::base::Result<Launched> make(const SandboxSpec& spec);
  engine::base::Status reserve_disk(const std::string& id, std::uint64_t bytes);
  engine::base::Status build(const SandboxSpec& spec, Making& making, Launched& launched);
  engine::base::Result<engine::base::UniqueFd> plan_for(const SandboxSpec& spec, const Making& making);
  engine::base::Status make_sockets(Making& making, Launched& launched) const;
  static engine::base::Result<LoopDisk> make_disk(int image, SandboxRecord record,
                                                  const std::string& record_path);
  static engine::base::Status hand_over_disk(Making& making, engine::base::Result<LoopDisk> disk);
  static engine::base::Status hand_over_network(Making& making, int error);
  engine::base::Result<KeptJail> launch(const SandboxSpec& spec, Making& making, const Launched& launched,
                                        const std::function<void()>& meanwhile);
  void undo(const std::string& id, Making& making);
  static void add_disk_usage(Held& held, Usage& usage);
  const Gauge& gauge(const std::string& id, Held& held, std::uint64_t exec) const;
  engine::base::Status wait_for_end(const std::string& id, const Held& held) const;

  const LauncherOptions options_;
  const bool rootless_;
  const std::string prefix_;
  const Cgroups groups_;
  DiskImages disks_;
  UidRanges uids_;
  BaseTrees bases_;
  std::unique_ptr<KeeperLink> keeper_;
  engine::base::UniqueFd init_;
  std::vector<sock_filter> filter_;
  std::once_flag looked_;
  std::vector<LimitSupport> support_;
  std::vector<BaseEntry> hidden_;
  std::vector<BaseEntry> etc_;  // empty if it is shared
  engine::base::UniqueFd shared_etc_;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Held>> held_;
  std::set<std::string> busy_;           // ids whose create is under way
  std::uint64_t promised_ = 0;           // disk bytes of creates under way
  engine::base::ThreadPool helpers_{4};  // parts of creates; last, so that they end first
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
