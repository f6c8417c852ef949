#include "sandbox-runtime/provider/linux/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "engine/base/core_limit.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

int set_limit(__rlimit_resource kind, std::uint64_t value) {
  const rlimit limit{value, value};
  return ::setrlimit(kind, &limit) == 0 ? 0 : errno;
}

/// Without root nobody raises a hard limit; a lower one than asked for still holds.
int limit_to(__rlimit_resource kind, std::uint64_t most) {
  rlimit now{};
  return ::getrlimit(kind, &now) == 0 ? set_limit(kind, std::min<std::uint64_t>(most, now.rlim_max)) : errno;
}

/// Whoever may have no core files at all, and may not raise that, is left with it. The filter keeps it so.
int keep_crashes_inside() {
  const int error = set_limit(RLIMIT_CORE, engine::base::kNoCoreDump);
  return error == EPERM ? set_limit(RLIMIT_CORE, 0) : error;
}

constexpr int kKept[] = {CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP};

}  // namespace

int take_identity(const PlanView& plan) {
  if (plan.has(kPlanRootless)) return 0;
  if (::setgroups(0, nullptr) != 0) return errno;
  if (::setresgid(0, 0, 0) != 0) return errno;
  return ::setresuid(0, 0, 0) == 0 ? 0 : errno;
}

int set_rlimits(const PlanView& plan) {
  const PlanHeader& header = plan.header();
  const bool rootless = plan.has(kPlanRootless);
  const auto files =
      rootless ? limit_to(RLIMIT_NOFILE, header.open_files) : set_limit(RLIMIT_NOFILE, header.open_files);
  if (files != 0) return files;
  if (const int error = keep_crashes_inside()) return error;
  if (const int error = limit_to(RLIMIT_MEMLOCK, 64 << 10)) return error;
  // These two rootless count for the user on the machine, too, who usually has 800 KiB and many thousands.
  if (const int error = limit_to(RLIMIT_MSGQUEUE, (rootless ? 200 : 800) << 10)) return error;
  if (const int error = limit_to(RLIMIT_SIGPENDING, 4096)) return error;
  if (const int error = set_limit(RLIMIT_NICE, 0)) return error;
  if (const int error = set_limit(RLIMIT_RTPRIO, 0)) return error;
  if (header.processes != 0) {
    if (const int error = set_limit(RLIMIT_NPROC, header.processes)) return error;
  }
  if (!std::ranges::any_of(header.cpu_mask, [](std::uint64_t word) { return word != 0; })) return 0;
  return ::syscall(__NR_sched_setaffinity, 0, sizeof header.cpu_mask, header.cpu_mask) >= 0 ? 0 : errno;
}

int drop_capabilities(const PlanView& plan) {
  const bool keep_some = !plan.has(kPlanRootless);
  std::uint64_t kept = 0;
  for (const int capability : kKept) kept |= keep_some ? std::uint64_t{1} << capability : 0;
  for (int capability = 0; capability < 64; ++capability) {
    if ((kept >> capability & 1) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      if (errno == EINVAL) break;  // past the kernel's last one
      return errno;
    }
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int word = 0; word < 2; ++word) {
    const auto bits = static_cast<std::uint32_t>(kept >> (32 * word));
    data[word].effective = data[word].permitted = bits;
  }
  if (::syscall(__NR_capset, &header, data) != 0) return errno;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno;
}

int die_with_keeper(int keeper_pidfd) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return errno;
  pollfd keeper{keeper_pidfd, POLLIN, 0};
  const int ended = ::poll(&keeper, 1, 0);
  if (ended < 0) return errno;
  return ended == 0 ? 0 : EOWNERDEAD;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
