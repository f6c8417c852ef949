#include "sandbox-runtime/provider/linux/seccomp_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "sandbox-runtime/provider/linux/syscall_lists.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "no system call filter for this machine"
#endif
constexpr std::uint32_t kX32Bit = 0x40000000;

using Program = std::vector<sock_filter>;

void add(Program& program, std::uint16_t code, std::uint32_t k, std::size_t if_true = 0,
         std::size_t if_false = 0) {
  program.push_back({code, static_cast<std::uint8_t>(if_true), static_cast<std::uint8_t>(if_false), k});
}

void load(Program& program, std::size_t offset) {
  add(program, BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

/// Only the low 32 bits: the kernel ignores the rest of int arguments, and so must the comparison (ADV-B14).
void load_arg(Program& program, int index) {
  load(program, offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * 8);
}

void answer(Program& program, std::uint32_t action) {
  add(program, BPF_RET | BPF_K, action);
}
void refuse(Program& program, int error) {
  answer(program, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
}
void allow(Program& program) {
  answer(program, SECCOMP_RET_ALLOW);
}

/// The block runs if the loaded value equals k, else it is skipped; a block must end in an answer on every
/// path.
void when(Program& program, std::uint32_t k, const Program& block) {
  add(program, BPF_JMP | BPF_JEQ | BPF_K, k, 0, block.size());
  program.insert(program.end(), block.begin(), block.end());
}

Program one_of(int index, std::uint32_t mask, std::initializer_list<std::uint32_t> values, int error) {
  Program block;
  load_arg(block, index);
  if (mask != ~0u) add(block, BPF_ALU | BPF_AND | BPF_K, mask);
  std::size_t left = values.size();
  for (const std::uint32_t value : values) add(block, BPF_JMP | BPF_JEQ | BPF_K, value, left--, 0);
  refuse(block, error);
  allow(block);
  return block;
}

/// Stream over AF_UNIX; TCP and UDP over the internet families; nothing else (S2, ADV-A30, ADV-B23).
Program socket_rule() {
  Program internet;
  load_arg(internet, 1);
  add(internet, BPF_ALU | BPF_AND | BPF_K, 0xff);
  add(internet, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
  add(internet, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
  refuse(internet, EAFNOSUPPORT);
  const Program protocols = one_of(2, ~0u, {0, 6, 17}, EAFNOSUPPORT);
  internet.insert(internet.end(), protocols.begin(), protocols.end());

  Program block;
  load_arg(block, 0);
  when(block, AF_INET, internet);
  when(block, AF_INET6, internet);
  when(block, AF_UNIX, one_of(1, 0xff, {SOCK_STREAM}, EAFNOSUPPORT));
  refuse(block, EAFNOSUPPORT);
  return block;
}

/// Allowed unless argument `index` is one of these.
Program none_of(int index, std::initializer_list<std::uint32_t> values, int error) {
  Program no;
  refuse(no, error);
  Program block;
  load_arg(block, index);
  for (const std::uint32_t value : values) when(block, value, no);
  allow(block);
  return block;
}

/// Nothing that types for others; nothing at which the kernel loads a module for anybody who asks (line
/// disciplines, bridges, VLANs, frame relay).
Program ioctl_rule() {
  return none_of(1,
                 {TIOCSTI, 0x541C /* TIOCLINUX */, 0x5453 /* TIOCL_… console selection */, TIOCSETD,
                  SIOCGIFBR, SIOCSIFBR, SIOCBRADDBR, SIOCBRDELBR, SIOCGIFVLAN, SIOCSIFVLAN,
                  0x8980 /* SIOCADDDLCI */, 0x8981 /* SIOCDELDLCI */},
                 EPERM);
}

/// The room for compiled filters is one for the whole machine: who takes it keeps others from making
/// sandboxes.
Program setsockopt_rule() {
  const Program filters = none_of(
      2, {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF}, ENOPROTOOPT);
  Program block;
  load_arg(block, 1);
  when(block, SOL_SOCKET, filters);
  allow(block);
  return block;
}

/// As a kernel without filters answers, for the same reason; and as one that never lets a command have a
/// whole core for itself.
Program prctl_rule() {
  Program block;
  load_arg(block, 0);
  when(block, PR_SET_SECCOMP, none_of(1, {SECCOMP_MODE_FILTER}, EINVAL));
  Program no;
  refuse(no, EINVAL);
  when(block, PR_SCHED_CORE, no);
  allow(block);
  return block;
}

Program clone_rule() {
  constexpr std::uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  return one_of(0, kNamespaces, {0}, EPERM);
}

/// `null` if the argument is a null pointer, else `other`.
Program null_or(int index, const Program& null, const Program& other) {
  Program low_is_zero;
  load(low_is_zero, offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * 8 + 4);
  when(low_is_zero, 0, null);
  low_is_zero.insert(low_is_zero.end(), other.begin(), other.end());
  Program block;
  load_arg(block, index);
  when(block, 0, low_is_zero);
  block.insert(block.end(), other.begin(), other.end());
  return block;
}

/// The limit of core files stays what keeps crashes from the machine (core_limit.h), and is not lowered
/// either. Programs with secrets set it to 0 and end if they cannot, so that says that it has worked; what
/// asks for the former limit with the same call cannot be told one.
Program setrlimit_rule() {
  Program block;
  load_arg(block, 0);
  Program done;
  refuse(done, 0);
  when(block, RLIMIT_CORE, done);
  allow(block);
  return block;
}

/// Rootless, init and commands share one uid, by which the kernel would let them set each other's limits.
Program prlimit_rule() {
  Program done;
  refuse(done, 0);
  Program no;
  refuse(no, EPERM);
  Program allowed;
  allow(allowed);
  Program own;
  load_arg(own, 1);
  when(own, RLIMIT_CORE, null_or(2, allowed, null_or(3, done, no)));
  allow(own);
  Program block;
  load_arg(block, 0);
  when(block, 0, own);
  refuse(block, EPERM);
  return block;
}

Program personality_rule() {
  return one_of(0, ~0u, {0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff}, EPERM);
}

/// Numbers from `first` to the next range's are all answered alike.
struct Range {
  std::uint32_t first;
  Program answer;
};

/// What belongs to the machine and not to the sandbox, and is counted for nobody.
void add_shared(std::map<std::uint32_t, Program>& answers) {
  // Both say that it has worked: they would write back every file system of the machine, or the one that /usr
  // is on, for all the others to wait.
  Program nothing;
  refuse(nothing, 0);
  answers.emplace(__NR_sync, nothing);
  answers.emplace(__NR_syncfs, nothing);
  // the machine's programs would have to be read anew
  answers.emplace(__NR_fadvise64, none_of(3, {POSIX_FADV_DONTNEED}, 0));
  // filters: see setsockopt_rule
  answers.emplace(__NR_setsockopt, setsockopt_rule());
  answers.emplace(__NR_prctl, prctl_rule());
  answers.emplace(__NR_seccomp, none_of(0, {SECCOMP_SET_MODE_FILTER}, EINVAL));
  // huge pages that the operator has set aside; no group of memory counts them
  answers.emplace(__NR_mmap, one_of(3, MAP_HUGETLB, {0}, ENOMEM));
  answers.emplace(__NR_memfd_create, one_of(1, MFD_HUGETLB, {0}, EINVAL));
  answers.emplace(__NR_shmget, one_of(2, SHM_HUGETLB, {0}, EPERM));
  // equal pages of two sandboxes would become one, and time tells whether they are
  answers.emplace(__NR_madvise, none_of(2, {MADV_MERGEABLE}, EINVAL));
}

bool same(const Program& one, const Program& other) {
  return std::ranges::equal(one, other, [](const sock_filter& a, const sock_filter& b) {
    return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
  });
}

/// All numbers from 0 up.
std::vector<Range> ranges() {
  std::map<std::uint32_t, Program> answers = {{__NR_socket, socket_rule()},
                                              {__NR_socketpair, one_of(0, ~0u, {AF_UNIX}, EAFNOSUPPORT)},
                                              {__NR_ioctl, ioctl_rule()},
                                              {__NR_clone, clone_rule()},
                                              {__NR_personality, personality_rule()}};
  answers.emplace(__NR_setrlimit, setrlimit_rule());
  answers.emplace(__NR_prlimit64, prlimit_rule());
  add_shared(answers);
  Program not_permitted;
  refuse(not_permitted, EPERM);
  Program allowed;
  allow(allowed);
  Program unknown;
  refuse(unknown, ENOSYS);
  for (const int number : refused_calls()) answers.emplace(static_cast<std::uint32_t>(number), not_permitted);
  for (const int number : allowed_calls()) answers.emplace(static_cast<std::uint32_t>(number), allowed);
  std::vector<Range> found = {{0, unknown}};
  std::uint32_t next = 0;
  const auto begin = [&](std::uint32_t first, const Program& answer) {
    if (!same(found.back().answer, answer)) found.push_back({first, answer});
  };
  for (const auto& [number, answer] : answers) {
    if (number != next) begin(next, unknown);
    begin(number, answer);
    next = number + 1;
  }
  begin(next, unknown);
  return found;
}

/// A search by halves: the kernel runs the whole program once for every number when it loads it.
Program decide(std::span<const Range> among) {
  if (among.size() == 1) return among.front().answer;
  const std::size_t middle = among.size() / 2;
  const Program below = decide(among.first(middle));
  const Program above = decide(among.subspan(middle));
  Program program;
  if (below.size() < 256) {
    add(program, BPF_JMP | BPF_JGE | BPF_K, among[middle].first, below.size(), 0);
  } else {
    add(program, BPF_JMP | BPF_JGE | BPF_K, among[middle].first, 0, 1);
    add(program, BPF_JMP | BPF_JA, static_cast<std::uint32_t>(below.size()));
  }
  program.insert(program.end(), below.begin(), below.end());
  program.insert(program.end(), above.begin(), above.end());
  return program;
}

}  // namespace

std::vector<sock_filter> build_filter() {
  Program program;
  load(program, offsetof(seccomp_data, arch));
  add(program, BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0);
  answer(program, SECCOMP_RET_KILL_PROCESS);
  load(program, offsetof(seccomp_data, nr));
  add(program, BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 0, 1);
  answer(program, SECCOMP_RET_KILL_PROCESS);

  const Program by_number = decide(ranges());
  program.insert(program.end(), by_number.begin(), by_number.end());
  return program;
}

int load_filter(std::span<const sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  return ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
