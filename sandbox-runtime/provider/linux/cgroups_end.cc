// The other half of Cgroups: counters, killing, removing, and what is left.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>

#include "sandbox-runtime/provider/linux/cgroups.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr int kEndTimeoutMs = 5000;

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Calls `done` until it says true, with growing pauses; false when the time is over.
template <class Done>
bool wait_for(Done done) {
  const std::int64_t deadline = now_ms() + kEndTimeoutMs;
  long pause_ns = 200'000;
  while (!done()) {
    if (now_ms() >= deadline) return false;
    const timespec pause{0, pause_ns};
    ::nanosleep(&pause, nullptr);
    pause_ns = std::min(pause_ns * 2, 20'000'000L);
  }
  return true;
}

std::vector<pid_t> processes_in(const std::string& folder) {
  std::istringstream numbers(read_file(folder + "/cgroup.procs", 4u << 20).value_or(""));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; numbers >> pid;) pids.push_back(pid);
  return pids;
}

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// What a counter says now.
std::string read_again(const UniqueFd& counter) {
  std::array<char, 4096> text;
  const ssize_t size = counter ? ::pread(counter.get(), text.data(), text.size(), 0) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

}  // namespace

std::vector<std::string> Cgroups::subgroups(const Root& root, const std::string& group) const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir((root.path + "/" + group).c_str()), &::closedir);
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool Cgroups::is_empty(const std::string& group) const {
  for (const Root& root : roots_) {
    if (!processes_in(root.path + "/" + group).empty()) return false;
    for (const std::string& child : subgroups(root, group)) {
      if (!processes_in(root.path + "/" + group + "/" + child).empty()) return false;
    }
  }
  return true;
}

Status Cgroups::kill_group(const std::string& group) const {
  if (roots_.empty()) return {};
  const Root* tree = unified();
  const bool switched = tree != nullptr && write_file(tree->path + "/" + group + "/cgroup.kill", "1") == 0;
  // Without the switch: nothing new can be forked, so killing until it is empty comes to an end.
  const Root* pids = root_of(Controller::pids);
  if (!switched && pids != nullptr) write_file(pids->path + "/" + group + "/pids.max", "0");
  const bool emptied = wait_for([&] {
    if (!switched) {
      for (const Root& root : roots_) {
        for (const pid_t pid : processes_in(root.path + "/" + group)) ::kill(pid, SIGKILL);
      }
    }
    return is_empty(group);
  });
  if (emptied) return {};
  return fail(Code::provider_failed, "processes of control group " + group + " do not end");
}

Status Cgroups::kill_exec(const std::string& name, std::uint64_t exec) const {
  return kill_group(name + "/e" + std::to_string(exec));
}

Status Cgroups::remove_group(const std::string& group) const {
  std::string stays;
  const bool gone = wait_for([&] {
    stays.clear();
    for (const Root& root : roots_) {
      const std::string path = root.path + "/" + group;
      for (const std::string& child : subgroups(root, group)) ::rmdir((path + "/" + child).c_str());
      if (::rmdir(path.c_str()) != 0 && errno != ENOENT) stays = path + ": " + error_text(errno);
    }
    return stays.empty();
  });
  return gone ? Status{} : fail(Code::provider_failed, "control group stays: " + stays);
}

Status Cgroups::remove_exec(const std::string& name, std::uint64_t exec) const {
  const std::string group = name + "/e" + std::to_string(exec);
  if (!is_empty(group)) {
    if (Status killed = kill_group(group); !killed) return killed;
  }
  return remove_group(group);
}

Status Cgroups::end(const std::string& name) const {
  if (roots_.empty() || remains(name).empty()) return {};
  // A throttled or frozen process dies late (V12).
  set(Controller::cpu, name, "cpu.cfs_quota_us", "cpu.max",
      unified() == root_of(Controller::cpu) ? "max" : "-1");
  set(Controller::cpu, name, "cpu.shares", "cpu.weight",
      unified() == root_of(Controller::cpu) ? "100" : "1024");
  if (unified() != nullptr) write_file(unified()->path + "/" + name + "/cgroup.freeze", "0");
  if (unified() != nullptr && write_file(unified()->path + "/" + name + "/cgroup.kill", "1") == 0) {
    if (wait_for([&] { return is_empty(name); })) return {};
  }
  for (const Root& root : roots_) {
    for (const std::string& child : subgroups(root, name)) {
      if (Status killed = kill_group(name + "/" + child); !killed) return killed;
    }
  }
  return {};
}

Status Cgroups::remove(const std::string& name) const {
  return remove_group(name);
}

std::vector<std::string> Cgroups::list(const std::string& prefix) const {
  std::set<std::string> names;
  for (const Root& root : roots_) {
    for (const std::string& name : subgroups(root, "")) {
      if (name.starts_with(prefix)) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> Cgroups::remains(const std::string& name) const {
  std::vector<std::string> left;
  for (const Root& root : roots_) {
    const std::string path = root.path + "/" + name;
    if (::access(path.c_str(), F_OK) == 0) left.push_back("control group " + path);
  }
  return left;
}

Gauge Cgroups::gauge(const std::string& name, std::uint64_t exec) const {
  const std::string group = name + "/e" + std::to_string(exec);
  return {counter(Controller::memory, group, "memory.max_usage_in_bytes", "memory.peak"),
          counter(Controller::memory, group, "memory.oom_control", "memory.events"),
          counter(Controller::pids, group, "pids.current", "pids.current"),
          counter(Controller::pids, group, "pids.events", "pids.events"),
          counter(Controller::cpuacct, group, "cpuacct.usage", "cpu.stat")};
}

Usage Cgroups::usage(const Gauge& gauge) {
  Usage usage;
  usage.memory_peak_bytes = number_in(read_again(gauge.memory_peak));
  usage.pids = number_in(read_again(gauge.pids));
  const std::string cpu = read_again(gauge.cpu);
  const auto micros = counter_in(cpu, "usage_usec");
  usage.cpu_ns = micros ? *micros * 1000 : number_in(cpu);
  if (const auto count = counter_in(read_again(gauge.memory_events), "oom_kill"); count && *count > 0) {
    usage.limits_hit.push_back({LimitKind::memory, *count, "oom_kill"});
  }
  for (LimitHit& hit : pids_hits(gauge)) usage.limits_hit.push_back(std::move(hit));
  return usage;
}

std::vector<LimitHit> Cgroups::pids_hits(const Gauge& gauge) {
  const auto count = counter_in(read_again(gauge.pids_events), "max");
  if (!count || *count == 0) return {};
  return {{LimitKind::pids, *count, "pids.events max"}};
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
