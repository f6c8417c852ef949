// What the machine has once for everybody, and what no group and no user is charged for: whoever could take
// it would take it from all sandboxes and from the machine.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

constexpr long kHigh = 0x100000000L;  // a bit that the kernel does not look at

void expect(const char* id, const char* name, long result, int wanted) {
  const int error = result < 0 ? errno : 0;
  if (error != wanted) breach("%s %s: %s", id, name, error_name(error).c_str());
}

/// B17: the kernel compiles filters into a room that is one for the machine. One sandbox filled it with
/// filters of sockets, and then no sandbox could be made any more.
void filters() {
  sock_filter lines[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog program{1, lines};
  for (const int family : {AF_UNIX, AF_INET, AF_INET6}) {
    const int fd = ::socket(family, SOCK_STREAM, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    for (const int option :
         {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF}) {
      for (const long high : {0L, kHigh}) {
        expect("B17", "filter of a socket",
               ::syscall(SYS_setsockopt, fd, SOL_SOCKET | high, option | high, &program, sizeof program),
               ENOPROTOOPT);
      }
    }
    ::close(fd);
  }
  for (const long high : {0L, kHigh}) {
    expect("B17", "filter of calls", ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER | high, 0, &program),
           EINVAL);
    expect("B17", "filter of calls by prctl",
           ::syscall(SYS_prctl, PR_SET_SECCOMP | high, SECCOMP_MODE_FILTER, &program, 0, 0), EINVAL);
  }
}

/// A13, B2: pages that the operator has set aside are in no memory limit.
void huge_pages() {
  constexpr std::size_t kSize = std::size_t{2} << 20;
  const bool mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) != MAP_FAILED;
  expect("A13", "huge pages", mapped ? 0 : -1, ENOMEM);
  expect("A13", "a file of huge pages", ::memfd_create("attack", MFD_HUGETLB), EINVAL);
  expect("A13", "shared huge pages", ::shmget(IPC_PRIVATE, kSize, IPC_CREAT | SHM_HUGETLB | 0600), EPERM);
  expect("E10", "pages merged with those of others",
         ::madvise(std::aligned_alloc(4096, 4096), 4096, MADV_MERGEABLE), EINVAL);
}

/// B3: a number that is no descriptor tells whether the kernel was asked.
void disks() {
  expect("B3", "sync", ::syscall(SYS_sync), 0);
  expect("B3", "syncfs", ::syscall(SYS_syncfs, -1), 0);
  expect("B3", "drop of the machine's cache", ::syscall(SYS_fadvise64, -1, 0, 0, POSIX_FADV_DONTNEED), 0);
}

/// B13: modules of the kernel that are loaded for whoever asks.
void modules() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  char about[256] = {};
  for (const unsigned long request : {SIOCGIFBR, SIOCBRADDBR, SIOCGIFVLAN, 0x8980}) {
    expect("B13", "a module", ::syscall(SYS_ioctl, fd, request, about), EPERM);
    expect("B13", "a module", ::syscall(SYS_ioctl, fd, request | kHigh, about), EPERM);
  }
  ::close(fd);
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  int discipline = 21;  // N_GSM0710
  expect("B13", "a line discipline", ::ioctl(terminal, TIOCSETD, &discipline), EPERM);
  ::close(terminal);
}

}  // namespace

int machine(char**) {
  filters();
  huge_pages();
  disks();
  modules();
  expect("B3", "a core for oneself", ::prctl(PR_SCHED_CORE, 1, 0, 0, 0), EINVAL);
  return 0;
}

}  // namespace sandglass::tests::attack
