// The kernel's surface: every call that a sandbox must not have, by number and with empty arguments. The
// filter answers before the kernel looks at them, so any other error than the wanted one means that the
// kernel was asked.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

struct Call {
  const char* name;
  long number;
  long first = 0;
};

/// Calls of one attack that are all answered alike.
struct Refused {
  const char* id;
  int wanted;
  std::initializer_list<Call> calls;
};

const Refused kRefused[] = {
    {"A18", EPERM, {{"syslog", SYS_syslog}}},
    {"A21",
     EPERM,
     {{"mount", SYS_mount},
      {"umount2", SYS_umount2},
      {"pivot_root", SYS_pivot_root},
      {"open_tree", 428},
      {"move_mount", 429},
      {"fsopen", 430},
      {"fsconfig", 431},
      {"fsmount", 432},
      {"fspick", 433},
      {"mount_setattr", 442},
      {"chroot", SYS_chroot}}},
    {"A29", EPERM, {{"sysfs", SYS_sysfs}}},
    {"B9",
     EPERM,
     {{"ptrace", SYS_ptrace},
      {"process_vm_readv", SYS_process_vm_readv},
      {"process_vm_writev", SYS_process_vm_writev},
      {"pidfd_getfd", 438},
      {"kcmp", SYS_kcmp}}},
    {"B10",
     EPERM,
     {{"unshare user", SYS_unshare, CLONE_NEWUSER},
      {"unshare mount", SYS_unshare, CLONE_NEWNS},
      {"unshare net", SYS_unshare, CLONE_NEWNET},
      {"clone user", SYS_clone, CLONE_NEWUSER | SIGCHLD},
      {"clone net", SYS_clone, CLONE_NEWNET | SIGCHLD},
      {"clone high bits", SYS_clone, 0x100000000L | CLONE_NEWUSER | SIGCHLD},
      {"setns", SYS_setns}}},
    {"B10", ENOSYS, {{"clone3", 435}}},
    {"B11", ENOSYS, {{"io_uring_setup", 425}, {"io_uring_enter", 426}, {"io_uring_register", 427}}},
    {"B13",
     EPERM,
     {{"bpf", SYS_bpf},
      {"perf_event_open", SYS_perf_event_open},
      {"userfaultfd", SYS_userfaultfd},
      {"kexec_load", SYS_kexec_load},
      {"kexec_file_load", SYS_kexec_file_load},
      {"init_module", SYS_init_module},
      {"finit_module", SYS_finit_module},
      {"delete_module", SYS_delete_module},
      {"open_by_handle_at", SYS_open_by_handle_at},
      {"name_to_handle_at", SYS_name_to_handle_at},
      {"quotactl", SYS_quotactl},
      {"acct", SYS_acct},
      {"swapon", SYS_swapon},
      {"swapoff", SYS_swapoff},
      {"reboot", SYS_reboot},
      {"add_key", SYS_add_key},
      {"keyctl", SYS_keyctl},
      {"request_key", SYS_request_key},
      {"fanotify_init", SYS_fanotify_init},
      {"lookup_dcookie", SYS_lookup_dcookie},
#if defined(__x86_64__)
      {"iopl", SYS_iopl, 3},
      {"ioperm", SYS_ioperm},
      {"modify_ldt", SYS_modify_ldt},
      {"uselib", SYS_uselib},
#endif
      {"vhangup", SYS_vhangup}}},
    {"B13",
     ENOSYS,
     {{"memfd_secret", 447}, {"statmount", 457}, {"open_tree_attr", 467}, {"a call of tomorrow", 999}}},
    {"B17", EPERM, {{"limits of another process", SYS_prlimit64, 1}}},
    {"B19",
     EPERM,
     {{"clock_settime", SYS_clock_settime},
      {"settimeofday", SYS_settimeofday},
      {"adjtimex", SYS_adjtimex},
      {"clock_adjtime", SYS_clock_adjtime},
      {"sethostname", SYS_sethostname}}},
};

void expect(const char* id, const char* name, long result, int wanted) {
  const int error = result < 0 ? errno : 0;
  if (error != wanted) breach("%s %s: %s", id, name, error_name(error).c_str());
}

/// A30, B23: every family and type.
void sockets() {
  for (long family = 0; family < 64; ++family) {
    for (long type = 0; type < 12; ++type) {
      for (const long protocol : {0L, 1L, 2L, 6L, 17L, 132L, 255L}) {
        const bool local = family == AF_UNIX && type == SOCK_STREAM;
        const bool internet = (family == AF_INET || family == AF_INET6) &&
                              (type == SOCK_STREAM || type == SOCK_DGRAM) &&
                              (protocol == 0 || protocol == 6 || protocol == 17);
        for (const long high : {0L, 0x100000000L}) {
          const long made = ::syscall(SYS_socket, family | high, type, protocol);
          const int error = made < 0 ? errno : 0;
          if (made >= 0) ::close(static_cast<int>(made));
          if (!local && !internet && error != EAFNOSUPPORT)
            breach("B23 socket(%ld, %ld, %ld): %s", family, type, protocol, error_name(error).c_str());
        }
      }
    }
  }
}

/// B14, B15, FR-157: also with bits that the kernel does not look at.
void terminals() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::isatty(fd) != 0) breach("B15 descriptor %d is a terminal", fd);
  }
  if (::open("/dev/tty", O_RDWR | O_CLOEXEC) >= 0) breach("B15 there is a controlling terminal");
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return breach("no terminal to try");
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  char key = 'x';
  for (const long request : {0x5412L, 0x100005412L, 0x541CL, 0x10000541CL}) {
    expect("B14", "terminal input", ::syscall(SYS_ioctl, slave, request, &key), EPERM);
  }
  ::close(slave);
  ::close(master);
  std::vector<int> masters;  // the machine has some thousands for everybody
  while (masters.size() < 200) {
    masters.push_back(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (masters.back() < 0) break;
  }
  if (masters.size() > 100) breach("B17 more than %zu terminals", masters.size() - 1);
  for (const int fd : masters) ::close(fd);
}

void privileges() {
  const gid_t groups[] = {0};
  const int refused = ::getuid() == 1000 && ::syscall(SYS_setuid, 0) != 0 && errno == EINVAL
                          ? EINVAL  // rootless the number is not even mapped
                          : EPERM;
  expect("B17", "setuid", ::syscall(SYS_setuid, 0), refused);
  expect("B17", "setresuid", ::syscall(SYS_setresuid, 0, 0, 0), refused);
  expect("B17", "setresgid", ::syscall(SYS_setresgid, 0, 0, 0), refused);
  expect("B17", "setgroups", ::setgroups(1, groups), EPERM);
  ::syscall(SYS_setfsuid, 0);
  if (::syscall(SYS_setfsuid, -1) == 0) breach("B17 setfsuid worked");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
  expect("B17", "capset", ::syscall(SYS_capset, &header, data), EPERM);
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_READ, capability) == 1) breach("B17 capability %d can come back", capability);
  }
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) breach("B17 new privileges are possible");
  for (int kind = 0; kind < RLIMIT_NLIMITS; ++kind) {
    rlimit limit{};
    ::getrlimit(static_cast<__rlimit_resource>(kind), &limit);
    if (limit.rlim_max == RLIM_INFINITY) continue;
    const rlim_t most = limit.rlim_max++;
    ::setrlimit(static_cast<__rlimit_resource>(kind), &limit);
    ::getrlimit(static_cast<__rlimit_resource>(kind), &limit);
    if (limit.rlim_max > most) breach("B17 limit %d raised", kind);
  }
}

/// B17, A15: a limit of 0 keeps core files away and no more: where the machine's core_pattern names a
/// program, the kernel would run it for every crash, as root, on the machine, with the sandbox's memory as
/// its input. It does not for a limit of 1, which is too small for a file; so that must not be changed, not
/// even lowered.
void crashes() {
  for (const rlimit& wanted :
       {rlimit{0, 0}, rlimit{0, 1}, rlimit{2, 2}, rlimit{RLIM_INFINITY, RLIM_INFINITY}}) {
    ::setrlimit(RLIMIT_CORE, &wanted);
    for (const long high : {0L, 0x100000000L}) {
      ::syscall(SYS_setrlimit, RLIMIT_CORE | high, &wanted);
      ::syscall(SYS_prlimit64, 0L | high, RLIMIT_CORE | high, &wanted, nullptr);
    }
    rlimit core{};
    ::getrlimit(RLIMIT_CORE, &core);
    if (core.rlim_cur != 1 || core.rlim_max != 1) {
      breach("B17 a crash is the machine's affair: core limit %llu of %llu",
             static_cast<unsigned long long>(core.rlim_cur), static_cast<unsigned long long>(core.rlim_max));
    }
  }
}

void scheduling() {
  const sched_param first{1};
  expect("B3", "SCHED_FIFO", ::sched_setscheduler(0, SCHED_FIFO, &first), EPERM);
  expect("B3", "SCHED_RR", ::sched_setscheduler(0, SCHED_RR, &first), EPERM);
  expect("B3", "nice", ::setpriority(PRIO_PROCESS, 0, -20), EACCES);
  expect("B3", "real-time disk", ::syscall(SYS_ioprio_set, 1, 0, 1 << 13), EPERM);
}

/// B9, B25: the first process can be asked nothing and told nothing.
void first_process() {
  for (const char* file : {"mem", "environ", "maps", "auxv", "stack", "syscall", "fd/3", "root/etc", "cwd/x",
                           "exe", "ns/net", "map_files", "io", "pagemap"}) {
    const std::string path = std::string("/proc/1/") + file;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    char byte = 0;
    if (::read(fd, &byte, 1) > 0) breach("B9 %s can be read", path.c_str());
    ::close(fd);
  }
  // rootless the parent has the command's own uid; kernels before 6.12 cannot keep signals in, and then it is
  // noticed
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) >= 6) {
    expect("B25", "end of the parent", ::kill(::getppid(), SIGKILL), EPERM);
  }
  for (const int signal : {SIGKILL, SIGSTOP, SIGSEGV, SIGTERM}) {
    ::kill(1, signal);
    ::syscall(SYS_tgkill, 1, 1, signal);
  }
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, 1, 0));
  if (process >= 0) ::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && ::geteuid() == 1000 && ::write(fd, "-1000", 5) == 5) breach("B2 own score lowered");
  if (fd >= 0) ::close(fd);
}

template <class Do>
int status_of_child(Do work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

/// The smallest 32-bit program: exit(0) by int 0x80.
constexpr unsigned char kProgram32[] = {
    0x7f, 'E',  'L',  'F', 1,    1,    1,    0,    0,    0,    0,    0,    0,    0, 0, 0, 2, 0, 3, 0,
    1,    0,    0,    0,   0x54, 0x80, 4,    8,    0x34, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0,
    0x34, 0,    0x20, 0,   1,    0,    0,    0,    0,    0,    0,    0,    1,    0, 0, 0, 0, 0, 0, 0,
    0,    0x80, 4,    8,   0,    0x80, 4,    8,    0x60, 0,    0,    0,    0x60, 0, 0, 0, 5, 0, 0, 0,
    0,    0x10, 0,    0,   0x31, 0xc0, 0x40, 0x31, 0xdb, 0xcd, 0x80, 0xf4, 0,    0, 0, 0};

}  // namespace

int kernel(char**) {
  for (const Refused& refused : kRefused) {
    for (const Call& call : refused.calls) {
      const long result = ::syscall(call.number, call.first, 0L, 0L, 0L, 0L, 0L);
      if (result == 0 && (call.number == SYS_clone)) ::_exit(0);
      expect(refused.id, call.name, result, refused.wanted);
    }
  }
  sockets();
  terminals();
  privileges();
  crashes();
  scheduling();
  first_process();
  return 0;
}

int foreign(char**) {  // B14
#if defined(__x86_64__)
  for (const long number : {0L, 39L, 41L, 56L, 165L, 272L, 512L, 520L}) {
    const int ended = status_of_child([number] { ::syscall(0x40000000 | number, 0, 0, 0, 0, 0, 0); });
    if (ended != SIGSYS) breach("B14 x32 call %ld: %d", number, ended);
  }
  if (const int ended = status_of_child([] { ::syscall(-1L); }); ended != SIGSYS)
    breach("B14 call -1: %d", ended);
  const int ended = status_of_child([] {
    long result = 20;  // getpid
    asm volatile("int $0x80" : "+a"(result) : : "memory");
  });
  if (ended != SIGSYS) breach("B14 int 0x80: %d", ended);
  const int file = ::open("/workspace/program32", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  if (::write(file, kProgram32, sizeof kProgram32) != sizeof kProgram32) breach("no 32-bit program to try");
  ::close(file);
  constexpr int kNotStarted = 50;  // a kernel without 32-bit programs has nothing to refuse
  const int entered = status_of_child([] {
    ::execl("/workspace/program32", "program32", nullptr);
    ::_exit(kNotStarted);
  });
  ::unlink("/workspace/program32");
  if (entered != SIGSYS && entered != -kNotStarted) breach("B14 32-bit program: %d", entered);
#endif
  return 0;
}

}  // namespace sandglass::tests::attack
