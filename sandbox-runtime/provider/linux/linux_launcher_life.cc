// The launcher after create: execs, counters, adoption, end, inventory.
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/linux_launcher_impl.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {

constexpr int kEndTimeoutMs = 10'000;
/// What init and its helpers may always have, whatever the execs take.
constexpr std::uint64_t kInitMemory = 8u << 20;
constexpr std::uint32_t kInitPids = 4;
/// The kernel's largest piece of page cache that is written as one.
constexpr std::uint64_t kLargestWrite = 2u << 20;

bool has_ended(int pidfd) {
  pollfd process{pidfd, POLLIN, 0};
  return ::poll(&process, 1, 0) > 0;
}

}  // namespace

Result<std::shared_ptr<LinuxLauncher::Held>> LinuxLauncher::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(id);
  if (found == held_.end()) return fail(Code::sandbox_lost, "no sandbox " + id);
  return found->second;
}

ExecLimits LinuxLauncher::exec_limits(const SandboxRecord& record, const ExecLimits& limits) {
  ExecLimits actual = limits;
  const std::uint64_t memory = record.memory - std::min(record.memory / 4, kInitMemory);
  const auto pids =
      static_cast<std::uint32_t>(record.pids - std::min<std::uint64_t>(record.pids / 4, kInitPids));
  actual.memory_bytes = limits.memory_bytes == 0 ? memory : std::min(memory, limits.memory_bytes);
  actual.pids = limits.pids == 0 ? pids : std::min(pids, limits.pids);
  return actual;
}

Result<UniqueFd> LinuxLauncher::make_exec(const std::string& id, std::uint64_t exec,
                                          const ExecLimits& limits) {
  const auto held = find(id);
  if (!held) return std::unexpected(held.error());
  const std::string group = group_of(id);
  if (Status made = groups_.make_exec_group(group, exec, exec_limits((*held)->record, limits)); !made)
    return std::unexpected(made.error());
  gauge(id, **held, exec);
  return groups_.exec_event(group, exec);
}

Status LinuxLauncher::limit_exec(const std::string& id, std::uint64_t exec, const ExecLimits& limits) {
  const auto held = find(id);
  if (!held) return std::unexpected(held.error());
  return groups_.set_exec_limits(group_of(id), exec, exec_limits((*held)->record, limits));
}

Status LinuxLauncher::place(const std::string& id, std::uint64_t exec, pid_t pid) {
  const auto held = find(id);
  if (!held) return std::unexpected(held.error());
  return groups_.place(group_of(id), exec, pid, (*held)->barrier.get());
}

Status LinuxLauncher::admit(const std::string& id, std::uint64_t exec, pid_t pid) {
  return groups_.admit(group_of(id), exec, pid);
}

Status LinuxLauncher::kill_exec(const std::string& id, std::uint64_t exec) {
  return groups_.kill_exec(group_of(id), exec);
}

Status LinuxLauncher::remove_exec(const std::string& id, std::uint64_t exec) {
  if (const auto held = find(id)) (*held)->gauges.erase(exec);
  return groups_.remove_exec(group_of(id), exec);
}

const Gauge& LinuxLauncher::gauge(const std::string& id, Held& held, std::uint64_t exec) const {
  const auto found = held.gauges.find(exec);
  return found != held.gauges.end()
             ? found->second
             : held.gauges.emplace(exec, groups_.gauge(group_of(id), exec)).first->second;
}

Result<Usage> LinuxLauncher::exec_usage(const std::string& id, std::uint64_t exec) {
  const auto held = find(id);
  if (!held) return std::unexpected(held.error());
  Usage usage = Cgroups::usage(gauge(id, **held, exec));
  add_disk_usage(**held, usage);
  return usage;
}

Result<std::vector<LimitHit>> LinuxLauncher::exec_hits(const std::string& id, std::uint64_t exec) {
  const auto held = find(id);
  if (!held) return std::unexpected(held.error());
  Usage usage;
  usage.limits_hit = Cgroups::pids_hits(gauge(id, **held, exec));
  add_disk_usage(**held, usage);
  return usage.limits_hit;
}

/// From the sandbox's own file system: nobody else writes to it.
void LinuxLauncher::add_disk_usage(Held& held, Usage& usage) {
  if (!held.work) {
    const std::string path = "/proc/" + std::to_string(held.pid) + "/root";
    const UniqueFd root(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root || has_ended(held.pidfd.get())) return;  // checked after: the number was still the sandbox's
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    held.work.reset(static_cast<int>(::syscall(__NR_openat2, root.get(), "workspace", &how, sizeof how)));
  }
  struct statfs about{};
  if (!held.work || ::fstatfs(held.work.get(), &about) != 0) return;
  usage.disk_bytes = (about.f_blocks - about.f_bfree) * static_cast<std::uint64_t>(about.f_bsize);
  usage.inodes = about.f_files - about.f_ffree;
  // The kernel counts no refused writes, and refuses a large one while a few blocks are left.
  const auto total = static_cast<std::uint64_t>(about.f_blocks) * static_cast<std::uint64_t>(about.f_bsize);
  const auto left = static_cast<std::uint64_t>(about.f_bavail) * static_cast<std::uint64_t>(about.f_bsize);
  if (left < std::min(kLargestWrite, total / 16)) {
    usage.limits_hit.push_back({LimitKind::disk, 1, "statfs: " + std::to_string(left) + " bytes free"});
  }
  if (about.f_ffree == 0) usage.limits_hit.push_back({LimitKind::inodes, 1, "statfs: no free inode"});
}

Result<std::vector<Launched>> LinuxLauncher::adopt() {
  Result<std::vector<KeptJail>> kept = keeper_->list();
  if (!kept) return std::unexpected(kept.error());
  std::vector<Launched> adopted;
  for (KeptJail& jail : *kept) {
    {
      const std::lock_guard lock(mutex_);
      if (held_.contains(jail.id)) continue;
    }
    const auto record = read_record(record_path(jail.id));
    if (!record || !jail.pidfd || !jail.control || !jail.barrier) {
      keeper_->forget(jail.id);  // sweep() removes the rest
      continue;
    }
    auto held = std::make_shared<Held>();
    held->record = *record;
    held->pid = jail.pid;
    held->pidfd.reset(::fcntl(jail.pidfd.get(), F_DUPFD_CLOEXEC, 3));
    held->barrier.reset(::fcntl(jail.barrier.get(), F_DUPFD_CLOEXEC, 3));
    held->image = std::move(jail.image);
    if (record->uid_base != 0) uids_.mark(record->uid_base);
    {
      const std::lock_guard lock(mutex_);
      held_.emplace(jail.id, std::move(held));
    }
    Launched launched;
    launched.id = jail.id;
    launched.control = std::move(jail.control);
    launched.barrier = std::move(jail.barrier);
    launched.listener = std::move(jail.listener);
    launched.pidfd = std::move(jail.pidfd);
    launched.support = support();
    adopted.push_back(std::move(launched));
  }
  return adopted;
}

/// Waits until pid 1 is reaped (which means that everything inside has ended) and the disk's device is free.
Status LinuxLauncher::wait_for_end(const std::string& id, const Held& held) const {
  if (held.pidfd) {
    pollfd process{held.pidfd.get(), POLLIN, 0};
    if (::poll(&process, 1, kEndTimeoutMs) == 0) {
      return fail(Code::provider_failed,
                  "sandbox " + id + ": process " + std::to_string(held.pid) + " does not end");
    }
  }
  if (Status gone = keeper_->forget(id); !gone) return gone;
  if (held.record.loop < 0) return {};
  const timespec pause{0, 1'000'000};
  for (int i = 0; i < kEndTimeoutMs; ++i) {
    if (!DiskImages::is_attached(static_cast<int>(held.record.loop), held.record.image_inode)) return {};
    ::nanosleep(&pause, nullptr);
  }
  return fail(Code::provider_failed,
              "sandbox " + id + ": /dev/loop" + std::to_string(held.record.loop) + " is not released");
}

Status LinuxLauncher::destroy(const std::string& id) {
  std::shared_ptr<Held> held;
  if (auto found = find(id)) held = *found;
  if (held == nullptr) {
    held = std::make_shared<Held>();
    held->record = read_record(record_path(id)).value_or(SandboxRecord{});
  }
  const std::string group = group_of(id);
  if (Status ended = groups_.end(group); !ended) return ended;
  held->work.reset();
  SG_CRASH_POINT("launcher.killed");
  if (held->pidfd) ::syscall(__NR_pidfd_send_signal, held->pidfd.get(), SIGKILL, nullptr, 0);
  if (!held->pidfd) {
    if (Status gone = keeper_->forget(id); !gone) return gone;
  }
  if (Status ended = wait_for_end(id, *held); !ended) return ended;
  if (held->image) {
    if (Status erased = DiskImages::erase(held->image.get()); !erased) return erased;
    held->image.reset();
  }
  if (Status removed = groups_.remove(group); !removed) return removed;
  SG_CRASH_POINT("launcher.removed");
  if (const auto left = groups_.remains(group); !left.empty()) {
    return fail(Code::provider_failed, "sandbox " + id + ": " + left.front() + " is left");
  }
  if (::unlink(record_path(id).c_str()) != 0 && errno != ENOENT) {
    return fail(Code::provider_failed, "sandbox record " + record_path(id) + ": " + error_text(errno));
  }
  ::unlink((options_.folder + "/" + group + ".img").c_str());  // of a create that was killed midway
  if (held->record.uid_base != 0) uids_.give_back(held->record.uid_base);
  const std::lock_guard lock(mutex_);
  held_.erase(id);
  return {};
}

Result<std::vector<InventoryEntry>> LinuxLauncher::inventory() {
  Result<std::vector<KeptJail>> kept = keeper_->list();
  if (!kept) return std::unexpected(kept.error());
  std::set<std::string> ids;
  std::map<std::string, pid_t> alive;
  for (const KeptJail& jail : *kept) {
    ids.insert(jail.id);
    alive.emplace(jail.id, jail.pid);
  }
  for (const std::string& id : recorded_ids(options_.folder, prefix_)) ids.insert(id);
  for (const std::string& group : groups_.list(prefix_)) {
    if (group != group_of(kServerGroup)) ids.insert(group.substr(prefix_.size()));
  }
  std::vector<InventoryEntry> entries;
  for (const std::string& id : ids) {
    InventoryEntry entry{id, alive.contains(id), groups_.remains(group_of(id))};
    if (entry.alive) entry.remains.push_back("process " + std::to_string(alive[id]));
    if (::access(record_path(id).c_str(), F_OK) == 0) entry.remains.push_back("record " + record_path(id));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<std::string>> LinuxLauncher::sweep() {
  Result<std::vector<InventoryEntry>> entries = inventory();
  if (!entries) return std::unexpected(entries.error());
  std::vector<std::string> swept;
  for (const InventoryEntry& entry : *entries) {
    {
      const std::lock_guard lock(mutex_);
      if (held_.contains(entry.id) || busy_.contains(entry.id)) continue;
    }
    if (Status gone = destroy(entry.id); !gone) return std::unexpected(gone.error());
    swept.push_back(entry.id);
  }
  return swept;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
