// The system call filter, run here as the kernel runs it.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "sandbox-runtime/provider/linux/seccomp_filter.h"
#include "sandbox-runtime/provider/linux/syscall_lists.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kHere = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kHere = AUDIT_ARCH_AARCH64;
#endif
const std::set<int> kWithRules = {
    __NR_socket,    __NR_socketpair,   __NR_ioctl,  __NR_clone,   __NR_personality, __NR_setrlimit,
    __NR_prlimit64, __NR_sync,         __NR_syncfs, __NR_mmap,    __NR_setsockopt,  __NR_prctl,
    __NR_seccomp,   __NR_memfd_create, __NR_shmget, __NR_madvise, __NR_fadvise64};

struct Answer {
  std::uint32_t action = 0;
  int steps = 0;
};

/// `steps` ends at 10,000: a program that runs on is broken.
Answer run(const std::vector<sock_filter>& program, const seccomp_data& call) {
  std::uint32_t value = 0;
  Answer answer;
  for (std::size_t at = 0; at < program.size() && answer.steps < 10'000; ++at) {
    const sock_filter& line = program[at];
    ++answer.steps;
    switch (line.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&value, reinterpret_cast<const char*>(&call) + line.k, sizeof value);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        value &= line.k;
        break;
      case BPF_JMP | BPF_JA:
        at += line.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += value == line.k ? line.jt : line.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += value >= line.k ? line.jt : line.jf;
        break;
      case BPF_RET | BPF_K:
        answer.action = line.k;
        return answer;
      default:
        ADD_FAILURE() << "unknown instruction " << line.code;
        return answer;
    }
  }
  ADD_FAILURE() << "the program has no end";
  return answer;
}

std::uint32_t refused_with(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

TEST(FilterTest, EveryNumberIsAnsweredAsTheListsSay) {  // S2, ADV-B9
  const auto program = build_filter();
  for (int number = 0; number < 2000; ++number) {
    if (kWithRules.contains(number)) continue;
    std::uint32_t expected = refused_with(ENOSYS);
    if (std::ranges::find(allowed_calls(), number) != allowed_calls().end()) expected = SECCOMP_RET_ALLOW;
    if (std::ranges::find(refused_calls(), number) != refused_calls().end()) expected = refused_with(EPERM);
    EXPECT_EQ(run(program, {number, kHere, 0, {}}).action, expected) << number;
  }
  EXPECT_EQ(run(program, {0x3fffffff, kHere, 0, {}}).action, refused_with(ENOSYS));
}

TEST(FilterTest, ForeignEntriesEndTheProcess) {  // ADV-B14
  const auto program = build_filter();
  for (const int number : {0, 39, 2000}) {
    EXPECT_EQ(run(program, {number, kHere ^ 1, 0, {}}).action, SECCOMP_RET_KILL_PROCESS);
    EXPECT_EQ(run(program, {number | 0x40000000, kHere, 0, {}}).action, SECCOMP_RET_KILL_PROCESS);
  }
  EXPECT_EQ(run(program, {-1, kHere, 0, {}}).action, SECCOMP_RET_KILL_PROCESS);
}

TEST(FilterTest, CallsWithRulesLookAtTheLowHalfOfTheirArguments) {  // ADV-B14, ADV-B23
  const auto program = build_filter();
  constexpr std::uint64_t kHigh = 0xabcd00000000;
  const auto answer = [&](int number, std::uint64_t first, std::uint64_t second, std::uint64_t third) {
    return run(program, {number, kHere, 0, {first | kHigh, second | kHigh, third | kHigh}}).action;
  };
  EXPECT_EQ(answer(__NR_socket, 2, 1, 6), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_socket, 16, 3, 0), refused_with(EAFNOSUPPORT));
  EXPECT_EQ(answer(__NR_socket, 1, 2, 0), refused_with(EAFNOSUPPORT));
  EXPECT_EQ(answer(__NR_socketpair, 1, 1, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_socketpair, 16, 1, 0), refused_with(EAFNOSUPPORT));
  EXPECT_EQ(answer(__NR_ioctl, 0, 0x5412, 0), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_ioctl, 0, 0x5401, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_clone, 0x10000000, 0, 0), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_clone, 17, 0, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_personality, 0x0400000, 0, 0), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_prlimit64, 0, 7, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_prlimit64, 1, 7, 0), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_setrlimit, RLIMIT_NOFILE, 0, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_sync, 0, 0, 0), refused_with(0));
}

// Each answer is that of a kernel which has not got the thing, and looks at the low half only.
TEST(FilterTest, WhatIsTheMachinesIsLeftAlone) {  // ADV-A13, ADV-B3, ADV-B17
  const auto program = build_filter();
  constexpr std::uint64_t kHigh = 0xabcd00000000;
  const auto answer = [&](int number, std::array<std::uint64_t, 4> args) {
    return run(program,
               {number, kHere, 0, {args[0] | kHigh, args[1] | kHigh, args[2] | kHigh, args[3] | kHigh}})
        .action;
  };
  EXPECT_EQ(answer(__NR_setsockopt, {3, SOL_SOCKET, SO_ATTACH_FILTER}), refused_with(ENOPROTOOPT));
  EXPECT_EQ(answer(__NR_setsockopt, {3, SOL_SOCKET, SO_REUSEADDR}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_setsockopt, {3, 6, SO_ATTACH_FILTER}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_seccomp, {1}), refused_with(EINVAL));
  EXPECT_EQ(answer(__NR_seccomp, {2}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_prctl, {22, 2}), refused_with(EINVAL));
  EXPECT_EQ(answer(__NR_prctl, {15, 2}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_mmap, {0, 0, 0, 0x40022}), refused_with(ENOMEM));
  EXPECT_EQ(answer(__NR_mmap, {0, 0, 0, 0x22}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_memfd_create, {0, 4 | 1}), refused_with(EINVAL));
  EXPECT_EQ(answer(__NR_memfd_create, {0, 1}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_shmget, {0, 0, 04000 | 0600}), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_shmget, {0, 0, 0600}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_madvise, {0, 0, 12}), refused_with(EINVAL));
  EXPECT_EQ(answer(__NR_madvise, {0, 0, 4}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_fadvise64, {3, 0, 0, 4}), refused_with(0));
  EXPECT_EQ(answer(__NR_fadvise64, {3, 0, 0, 2}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(answer(__NR_ioctl, {3, 0x5423}), refused_with(EPERM));
  EXPECT_EQ(answer(__NR_syncfs, {3}), refused_with(0));
}

// core_limit.h: nobody changes the limit, everybody may ask for it.
TEST(FilterTest, TheLimitOfCoreFilesStays) {  // ADV-B17
  const auto program = build_filter();
  constexpr std::uint64_t kHigh = 0xabcd00000000;
  EXPECT_EQ(run(program, {__NR_setrlimit, kHere, 0, {RLIMIT_CORE | kHigh, 1}}).action, refused_with(0));
  const auto prlimit = [&](std::uint64_t wanted, std::uint64_t former) {
    return run(program, {__NR_prlimit64, kHere, 0, {kHigh, RLIMIT_CORE | kHigh, wanted, former}}).action;
  };
  for (const std::uint64_t somewhere : {std::uint64_t{0x1000}, std::uint64_t{0x7fff} << 32}) {
    EXPECT_EQ(prlimit(0, somewhere), SECCOMP_RET_ALLOW);
    EXPECT_EQ(prlimit(somewhere, 0), refused_with(0));
    EXPECT_EQ(prlimit(somewhere, somewhere), refused_with(EPERM));
  }
}

// The kernel runs the program once for every number that it knows whenever it is loaded: for each sandbox.
TEST(FilterTest, NoNumberTakesManySteps) {
  const auto program = build_filter();
  for (int number = 0; number < 600; ++number) {
    EXPECT_LE(run(program, {number, kHere, 0, {}}).steps, 32) << number;
  }
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::provider::linux_jail
