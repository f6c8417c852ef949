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

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

int set_limit(__rlimit_resource kind, std::uint64_t value) {
  const rlimit limit{value, value};
  return ::setrlimit(kind, &limit) == 0 ? 0 : errno;
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
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return errno;
  // Without root nobody raises a hard limit; a lower one than asked for still holds.
  const std::uint64_t most = plan.has(kPlanRootless) ? files.rlim_max : header.open_files;
  if (const int error = set_limit(RLIMIT_NOFILE, std::min<std::uint64_t>(most, header.open_files)))
    return error;
  if (const int error = set_limit(RLIMIT_CORE, 0)) return error;
  if (const int error = set_limit(RLIMIT_MEMLOCK, 64 << 10)) return error;
  if (const int error = set_limit(RLIMIT_MSGQUEUE, 800 << 10)) return error;
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
