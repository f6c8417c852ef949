// Trees that are hard on whoever has to walk, read or remove them.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {

int deep(char** argv) {  // A14
  const std::uint64_t levels = number(argv, 0, 1000);
  std::uint64_t made = 0;
  if (::mkdir("deep", 0755) != 0 || ::chdir("deep") != 0) return 1;
  while (made < levels && ::mkdir("d", 0755) == 0 && ::chdir("d") == 0) ++made;
  std::printf("%llu levels\n", static_cast<unsigned long long>(made));
  return made == levels ? 0 : 1;
}

int wide(char** argv) {  // A14: names as long as they may be
  const std::uint64_t files = number(argv, 0, 1000);
  if (::mkdir("wide", 0755) != 0 || ::chdir("wide") != 0) return 1;
  std::string name(255, 'n');
  for (std::uint64_t i = 0; i < files; ++i) {
    std::snprintf(name.data() + 235, 21, "%020llu", static_cast<unsigned long long>(i));
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return std::printf("%s\n", error_name(errno).c_str()), 1;
    ::close(fd);
  }
  return 0;
}

int swap(char** argv) {  // A3
  std::printf("swapping\n");
  std::fflush(stdout);
  for (;;) ::syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], RENAME_EXCHANGE);
}

}  // namespace sandglass::tests::attack
