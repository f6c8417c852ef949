#include "sandbox-runtime/provider/linux/support.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-runtime/provider/linux/privileges.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

constexpr const char* kAsRoot = "run the server as root";

LimitSupport by_group(LimitKind kind, Controller controller, const char* name, const Cgroups& groups,
                      bool rootless) {
  if (groups.has(controller)) return {kind, Strength::works, std::string("control group ") + name, ""};
  if (rootless) return {kind, Strength::missing, "rootless there is no control group to use", kAsRoot};
  return {kind, Strength::missing, std::string("no hierarchy has the controller ") + name,
          std::string("mount it: mount -t cgroup -o ") + name + " cgroup /sys/fs/cgroup/" + name};
}

/// CAP_SYS_RESOURCE, which some containers take from their root.
bool may_protect_init() {
  constexpr unsigned kSysResource = 24;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  return ::syscall(__NR_capget, &header, data) == 0 && (data[0].effective >> kSysResource & 1) != 0;
}

}  // namespace

std::vector<LimitSupport> find_support(bool rootless, const Cgroups& groups, DiskImages& disks) {
  std::vector<LimitSupport> support = {
      by_group(LimitKind::memory, Controller::memory, "memory", groups, rootless),
      by_group(LimitKind::cpu, Controller::cpu, "cpu", groups, rootless),
      {LimitKind::open_files, Strength::works, "RLIMIT_NOFILE", ""},
      {LimitKind::output, Strength::works, "bounded by init", ""},
      {LimitKind::exec_wall, Strength::works, "clock of the host", ""},
      {LimitKind::life, Strength::works, "clock of the host", ""},
  };
  if (rootless) {
    support.push_back({LimitKind::pids, Strength::works, "RLIMIT_NPROC in the user namespace", ""});
    support.push_back(
        {LimitKind::exec_cpu, Strength::weaker, "RLIMIT_CPU of each process, in whole seconds", kAsRoot});
    support.push_back(
        {LimitKind::disk, Strength::works, "sized tmpfs, which takes memory of the machine", ""});
    support.push_back({LimitKind::inodes, Strength::works, "sized tmpfs", ""});
    return support;
  }
  support.push_back(by_group(LimitKind::pids, Controller::pids, "pids", groups, rootless));
  support.push_back(by_group(LimitKind::exec_cpu, Controller::cpuacct, "cpuacct", groups, rootless));
  constexpr std::uint64_t kProbeBytes = 8u << 20;
  const auto image = disks.image("probe", kProbeBytes, 256);
  const auto disk = image ? DiskImages::mount(image->get(), kCommandUid) : std::unexpected(image.error());
  const Strength strength = disk ? Strength::works : Strength::missing;
  const std::string detail = disk ? "ext4 on a loop device" : disk.error().message;
  const std::string remedy = disk ? "" : "apt-get install e2fsprogs; modprobe loop";
  support.push_back({LimitKind::disk, strength, detail, remedy});
  support.push_back({LimitKind::inodes, strength, detail, remedy});
  return support;
}

std::vector<Feature> find_protections(bool rootless, const Cgroups& groups) {
  std::vector<Feature> features;
  features.push_back(
      {"root", rootless ? Strength::weaker : Strength::works,
       rootless ? "one uid for init and commands; limits as listed" : "a uid range for each sandbox",
       rootless ? kAsRoot : ""});
  features.push_back({"system call filter", Strength::works, "seccomp allow-list", ""});
  const int landlock = landlock_version();
  features.push_back({"landlock", landlock > 0 ? Strength::works : Strength::weaker,
                      landlock > 0 ? "version " + std::to_string(landlock)
                                   : "no Landlock: mounts, uids and the call filter hold alone",
                      landlock > 0 ? "" : "boot a kernel with lsm=landlock,… (5.13 or later)"});
  const bool kill = groups.has_kill_switch();
  features.push_back(
      {"kill switch", kill || rootless ? Strength::works : Strength::weaker,
       kill       ? "cgroup.kill"
       : rootless ? "end of pid 1"
                  : "processes are killed one by one",
       kill || rootless ? "" : "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified (kernel 5.14 or later)"});
  const std::uint64_t factor = groups.own_cpu_factor();
  const bool favoured = factor >= kServerFactor;
  features.push_back({"server's cpu share", favoured ? Strength::works : Strength::weaker,
                      favoured ? std::to_string(factor) + " times a sandbox's, when the processors are scarce"
                               : "engine, keeper and proxy compete with a sandbox as equals",
                      favoured   ? ""
                      : rootless ? kAsRoot
                                 : "start the host by sandglassd, where a cpu control group can be made"});
  const bool protects = may_protect_init();
  if (!rootless) {
    features.push_back({"init protection", protects ? Strength::works : Strength::weaker,
                        protects ? "never a victim of the out-of-memory killer"
                                 : "init is an ordinary, if small, victim of the out-of-memory killer",
                        protects ? "" : "give the server CAP_SYS_RESOURCE"});
  }
  const bool merged = ::access("/bin/sh", X_OK) == 0 && ::access("/usr/bin/sh", X_OK) == 0;
  features.push_back({"machine base", merged ? Strength::works : Strength::missing,
                      merged ? "/usr of the machine; toolchains outside of /usr are not there"
                             : "/bin is not merged into /usr",
                      merged ? "" : "apt-get install usrmerge"});
  return features;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
