#include "sandbox-runtime/provider/linux/cgroups.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/packet.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr Controller kControllers[] = {Controller::memory, Controller::pids, Controller::cpu,
                                       Controller::cpuacct};
constexpr std::uint64_t kPeriodUs = 100'000;
/// Of a group's memory, and in any case.
constexpr std::uint64_t kSocketPart = 8;
constexpr std::uint64_t kLeastSocketBytes = 4ULL << 20;
constexpr std::uint64_t kMostSocketBytes = 64ULL << 20;

std::string_view name_of(Controller controller) {
  switch (controller) {
    case Controller::memory:
      return "memory";
    case Controller::pids:
      return "pids";
    case Controller::cpu:
      return "cpu";
    case Controller::cpuacct:
      return "cpuacct";
  }
  return "";
}

Status group_failed(const std::string& path, int error) {
  return fail(Code::provider_failed, "control group " + path + ": " + error_text(error));
}

struct Mount {
  std::string path;
  std::string type;
  std::string options;  // of the super block: the controllers of a v1 hierarchy
};

std::vector<Mount> control_group_mounts() {
  std::vector<Mount> mounts;
  std::istringstream lines(read_file("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skip;
    Mount mount;
    before >> skip >> skip >> skip >> skip >> mount.path;
    after >> mount.type >> skip >> mount.options;
    if (mount.type == "cgroup" || mount.type == "cgroup2") mounts.push_back(mount);
  }
  return mounts;
}

bool lists(const std::string& text, std::string_view word, char separator) {
  std::istringstream words(text);
  for (std::string each; std::getline(words, each, separator);) {
    while (!each.empty() && each.back() == '\n') each.pop_back();
    if (each == word) return true;
  }
  return false;
}

std::string exec_group(const std::string& name, std::uint64_t exec) {
  return name + "/e" + std::to_string(exec);
}

}  // namespace

Cgroups Cgroups::find(bool usable) {
  Cgroups groups;
  if (!usable) return groups;
  const std::vector<Mount> mounts = control_group_mounts();
  const auto free = [&](Controller controller) { return groups.root_of(controller) == nullptr; };
  for (const Mount& mount : mounts) {
    if (mount.type != "cgroup") continue;
    Root root{mount.path, false, {}};
    for (const Controller controller : kControllers) {
      if (free(controller) && lists(mount.options, name_of(controller), ','))
        root.controllers.push_back(controller);
    }
    if (!root.controllers.empty()) groups.roots_.push_back(root);
  }
  for (const Mount& mount : mounts) {
    if (mount.type != "cgroup2") continue;
    Root root{mount.path, true, {}};
    const std::string available = read_file(mount.path + "/cgroup.controllers").value_or("");
    for (const Controller controller : kControllers) {
      const std::string_view wanted = controller == Controller::cpuacct ? "cpu" : name_of(controller);
      if (!free(controller) || !lists(available, wanted, ' ')) continue;
      if (write_file(mount.path + "/cgroup.subtree_control", "+" + std::string(wanted)) == 0) {
        root.controllers.push_back(controller);
      }
    }
    groups.roots_.push_back(root);
    break;
  }
  return groups;
}

const Cgroups::Root* Cgroups::root_of(Controller controller) const {
  for (const Root& root : roots_) {
    if (std::ranges::find(root.controllers, controller) != root.controllers.end()) return &root;
  }
  return nullptr;
}

const Cgroups::Root* Cgroups::unified() const {
  const auto found = std::ranges::find_if(roots_, &Root::unified);
  return found == roots_.end() ? nullptr : &*found;
}

bool Cgroups::has_kill_switch() const {
  if (unified() == nullptr) return false;
  // The root has no such file; whether the kernel knows it shows in the first folder. 5.14 and later have it.
  const std::string probe = unified()->path + "/sandglass-probe-" + std::to_string(::getpid());
  if (::mkdir(probe.c_str(), 0700) != 0) return false;
  const bool has = ::access((probe + "/cgroup.kill").c_str(), W_OK) == 0;
  ::rmdir(probe.c_str());
  return has;
}

std::string Cgroups::file(Controller controller, const std::string& group, const char* v1,
                          const char* v2) const {
  const Root* root = root_of(controller);
  if (root == nullptr) return "";
  return root->path + "/" + group + "/" + (root->unified ? v2 : v1);
}

UniqueFd Cgroups::counter(Controller controller, const std::string& group, const char* v1,
                          const char* v2) const {
  const std::string path = file(controller, group, v1, v2);
  return path.empty() ? UniqueFd() : UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

Status Cgroups::set(Controller controller, const std::string& group, const char* v1, const char* v2,
                    const std::string& value) const {
  const std::string path = file(controller, group, v1, v2);
  if (path.empty()) return {};
  const int error = write_file(path, value);
  return error == 0 ? Status{} : group_failed(path, error);
}

Status Cgroups::set_memory(const std::string& group, std::uint64_t bytes) const {
  const std::string value = std::to_string(bytes);
  if (Status done = set(Controller::memory, group, "memory.limit_in_bytes", "memory.max", value); !done)
    return done;
  const Root* root = root_of(Controller::memory);
  if (root == nullptr) return {};
  // Swap would make the limit soft. Machines without swap accounting have neither file.
  const std::string swap =
      root->path + "/" + group + (root->unified ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes");
  const auto wrote = [](int error) { return error == 0 || error == ENOENT || error == EOPNOTSUPP; };
  if (const int error = write_file(swap, root->unified ? "0" : value); !wrote(error))
    return group_failed(swap, error);
  if (root->unified) return {};
  // What waits in sockets is no part of a v1 group's memory; without a limit of its own one sandbox could
  // take what the machine has for all of them.
  const std::string sockets = root->path + "/" + group + "/memory.kmem.tcp.limit_in_bytes";
  const std::uint64_t part = std::clamp(bytes / kSocketPart, kLeastSocketBytes, kMostSocketBytes);
  const int error = write_file(sockets, std::to_string(part));
  return wrote(error) ? Status{} : group_failed(sockets, error);
}

Status Cgroups::set_cpu_factor(const std::string& group, std::uint64_t factor) const {
  const Root* root = root_of(Controller::cpu);
  const std::uint64_t unit = root != nullptr && root->unified ? kSandboxWeight : kSandboxShares;
  return set(Controller::cpu, group, "cpu.shares", "cpu.weight", std::to_string(unit * factor));
}

Status Cgroups::make_folders(const std::string& group, bool of_exec) const {
  for (const Root& root : roots_) {
    if (of_exec && !root.holds_execs()) continue;
    const std::string path = root.path + "/" + group;
    if (::mkdir(path.c_str(), 0755) != 0) return group_failed(path, errno);
  }
  return {};
}

Status Cgroups::make(const std::string& name, const Limits& limits) const {
  const auto build = [&]() -> Status {
    if (Status done = make_folders(name, false); !done) return done;
    for (const Root& root : roots_) {
      if (!root.unified) continue;
      for (const Controller controller : root.controllers) {
        if (controller == Controller::cpuacct) continue;
        const std::string path = root.path + "/" + name + "/cgroup.subtree_control";
        if (const int error = write_file(path, "+" + std::string(name_of(controller))))
          return group_failed(path, error);
      }
    }
    if (Status done = set_memory(name, limits.memory.value); !done) return done;
    if (Status done = set(Controller::pids, name, "pids.max", "pids.max", std::to_string(limits.pids.value));
        !done) {
      return done;
    }
    const std::uint64_t quota = limits.cpu.value * kPeriodUs / 1000;
    const Root* cpu = root_of(Controller::cpu);
    const std::string value =
        std::to_string(quota) + (cpu != nullptr && cpu->unified ? " " + std::to_string(kPeriodUs) : "");
    if (Status done = set(Controller::cpu, name, "cpu.cfs_quota_us", "cpu.max", value); !done) return done;
    if (Status done = set_cpu_factor(name, 1); !done) return done;
    return make_folders(name + "/init", false);
  };
  Status done = build();
  if (!done) remove(name);
  return done;
}

/// A lone thread that moves itself through `tasks` spares the machine-wide lock that costs tens of
/// milliseconds.
Result<std::vector<UniqueFd>> Cgroups::entries(const std::string& group) const {
  std::vector<UniqueFd> fds;
  for (const Root& root : roots_) {
    if (!root.holds_execs()) continue;
    const std::string path = root.path + "/" + group + (root.unified ? "/cgroup.procs" : "/tasks");
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) return std::unexpected(group_failed(path, errno).error());
    fds.push_back(std::move(fd));
  }
  return fds;
}

Result<std::vector<UniqueFd>> Cgroups::init_groups(const std::string& name) const {
  return entries(name + "/init");
}

UniqueFd Cgroups::init_leaf(const std::string& name) const {
  const Root* root = unified();
  if (root == nullptr) return {};
  return UniqueFd(::open((root->path + "/" + name + "/init").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

Result<UniqueFd> Cgroups::memory_event(const std::string& group) const {
  const Root* root = root_of(Controller::memory);
  if (root == nullptr) return UniqueFd();
  const std::string folder = root->path + "/" + group;
  if (root->unified) {
    // Becomes readable at every event of the group; the host reads the counters then.
    UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!watch || ::inotify_add_watch(watch.get(), (folder + "/memory.events").c_str(), IN_MODIFY) < 0) {
      return std::unexpected(group_failed(folder, errno).error());
    }
    return watch;
  }
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const UniqueFd source(::open((folder + "/memory.oom_control").c_str(), O_RDONLY | O_CLOEXEC));
  if (!event || !source) return std::unexpected(group_failed(folder, errno).error());
  const std::string line = std::to_string(event.get()) + " " + std::to_string(source.get());
  const int error = write_file(folder + "/cgroup.event_control", line);
  if (error != 0) return std::unexpected(group_failed(folder + "/cgroup.event_control", error).error());
  return event;
}

Status Cgroups::make_exec_group(const std::string& name, std::uint64_t exec, const ExecLimits& limits) const {
  const std::string group = exec_group(name, exec);
  Status made = make_folders(group, true);
  if (made) made = set_exec_limits(name, exec, limits);
  if (!made) remove_group(group);
  return made;
}

Status Cgroups::set_exec_limits(const std::string& name, std::uint64_t exec, const ExecLimits& limits) const {
  const std::string group = exec_group(name, exec);
  if (Status done = set_memory(group, limits.memory_bytes); !done) return done;
  return set(Controller::pids, group, "pids.max", "pids.max", std::to_string(limits.pids));
}

Result<UniqueFd> Cgroups::exec_event(const std::string& name, std::uint64_t exec) const {
  return memory_event(exec_group(name, exec));
}

bool Cgroups::is_in(const std::string& group, pid_t pid, bool or_below) const {
  const std::string where = read_file("/proc/" + std::to_string(pid) + "/cgroup").value_or("");
  const std::string wanted = "/" + group + (or_below ? "/" : "\n");
  std::size_t found = 0;
  for (std::size_t at = where.find(wanted); at != std::string::npos; at = where.find(wanted, at + 1)) ++found;
  return found >= static_cast<std::size_t>(std::ranges::count_if(roots_, &Root::holds_execs));
}

Status Cgroups::place(const std::string& name, std::uint64_t exec, pid_t pid, int barrier) const {
  Result<std::vector<UniqueFd>> doors = entries(exec_group(name, exec));
  if (!doors) return std::unexpected(doors.error());
  if (!roots_.empty() && !is_in(name + "/init", pid, false)) {
    return fail(Code::sandbox_lost, "process " + std::to_string(pid) + " is not of sandbox group " + name);
  }
  std::vector<int> numbers;
  for (const UniqueFd& door : *doors) numbers.push_back(door.get());
  if (!send_packet(barrier, &exec, sizeof exec, numbers,
                   MSG_DONTWAIT)) {  // one that does not read holds nobody up
    return fail(Code::sandbox_lost,
                "sandbox group " + name + ": nobody at the barrier: " + error_text(errno));
  }
  if (roots_.empty()) return {};
  // The first victim, here and on the whole machine. Written with the machine's privilege this is also the
  // least value that the command can go back to.
  const std::string score = "/proc/" + std::to_string(pid) + "/oom_score_adj";
  const int error = write_file(score, "1000");
  return error == 0 ? Status{} : group_failed(score, error);
}

Status Cgroups::admit(const std::string& name, std::uint64_t exec, pid_t pid) const {
  const std::string group = exec_group(name, exec);
  if (roots_.empty() || is_in(group, pid, false)) return {};
  if (!is_in(name, pid, true)) {
    return fail(Code::sandbox_lost, "process " + std::to_string(pid) + " is not of sandbox group " + name);
  }
  for (const Root& root : roots_) {
    if (!root.holds_execs()) continue;
    const std::string path = root.path + "/" + group + "/cgroup.procs";
    const int error = write_file(path, std::to_string(pid));
    if (error == ESRCH) return fail(Code::sandbox_lost, "process " + std::to_string(pid) + " has ended");
    if (error != 0) return group_failed(path, error);
  }
  return {};
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
