// What a command sees and may write of the file system.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

void must_not_write(const char* id, const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return;
  // a covered file opens where it is a device; what counts is that nothing takes the bytes
  if (::write(fd, "0", 1) == 1) breach("%s can be written: %s", id, path.c_str());
  ::close(fd);
}

void must_be_empty(const char* id, const char* path) {
  std::array<char, 16> bytes;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  if (::read(fd, bytes.data(), bytes.size()) > 0) breach("%s can be read: %s", id, path);
  ::close(fd);
}

std::string content_of(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void base() {  // A6, A15, A23, FR-154: hidden folders take nothing either
  for (const char* folder :
       {"/",      "/usr/", "/usr/bin/", "/etc/",           "/var/",     "/run/",     "/root/",
        "/home/", "/opt/", "/srv/",     "/mnt/",           "/media/",   "/bin/",     "/lib/",
        "/sys/",  "/dev/", "/proc/",    "/usr/local/etc/", "/usr/src/", "/usr/etc/", "/usr/local/"}) {
    must_not_write("A6", std::string(folder) + "attack");
  }
  for (const char* file :
       {"/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/usr/bin/env", "/proc/cpuinfo", "/proc/meminfo"}) {
    must_not_write("A6", file);
    if (::chmod(file, 0777) == 0) breach("A6 mode changed: %s", file);
  }
  for (const char* file :
       {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/yama/ptrace_scope",
        "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/self/setgroups", "/proc/self/uid_map"}) {
    must_not_write("A15", file);
  }
  for (const char* file : {"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/kmsg",
                           "/proc/cmdline", "/proc/slabinfo", "/proc/timer_list", "/proc/sched_debug",
                           "/proc/vmallocinfo", "/proc/partitions", "/proc/modules", "/proc/config.gz",
                           "/proc/iomem", "/proc/swaps", "/dev/mem", "/dev/kmsg", "/dev/port"}) {
    must_be_empty("A18", file);
  }
  struct statfs about{};
  for (const char* path : {"/", "/usr", "/workspace", "/tmp", "/dev/shm", "/home/sandbox"}) {
    constexpr long kNoSetuid = 2;
    if (::statfs(path, &about) != 0 || (about.f_flags & kNoSetuid) == 0) breach("A23 no nosuid: %s", path);
  }
}

void links_and_devices() {
  if (::link("/usr/bin/env", "/workspace/env") == 0) breach("A6 hard link to the base");
  if (::link("/etc/passwd", "/tmp/passwd") == 0) breach("A6 hard link to /etc");
  for (const dev_t device : {makedev(8, 0), makedev(254, 0), makedev(7, 0), makedev(1, 1), makedev(1, 3)}) {
    if (::mknod("/workspace/device", S_IFBLK | 0666, device) == 0) breach("A10 block device made");
    if (::mknod("/workspace/device", S_IFCHR | 0666, device) == 0) breach("A10 character device made");
  }
  const int fd = ::open("/workspace/tool", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
  if (::fchown(fd, 0, 0) == 0 || ::fchown(fd, 4242, 4242) == 0) breach("A23 owner changed");
  for (const char* name : {"security.capability", "trusted.overlay.redirect", "trusted.overlay.opaque",
                           "system.posix_acl_default"}) {  // A10, A22
    if (::fsetxattr(fd, name, "\1\0\0\2\377\377\377\377\0\0\0\0", 12, 0) == 0)
      breach("A22 attribute set: %s", name);
  }
  ::close(fd);
  ::unlink("/workspace/tool");
}

void descriptors_and_names() {  // A17, A27
  for (int fd = 3; fd < 4096; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) breach("A17 descriptor %d is open", fd);
  }
  if (::chdir("/proc/self/fd/3") == 0 || ::chdir("/proc/1/cwd") == 0) breach("A17 a way through /proc");
  const std::string mounts = content_of("/proc/self/mountinfo");
  for (const char* word :
       {"sandglass-host", "sandglass-test", "/run/jails", ".img", " - cgroup", " - sysfs"}) {
    if (mounts.find(word) != std::string::npos) breach("A18 the mounts tell of %s", word);
  }
  const std::string groups = content_of("/proc/self/cgroup");
  if (groups.find("sandglass-") != std::string::npos) breach("A18 the group's path: %s", groups.c_str());
  DIR* dev = ::opendir("/dev");
  constexpr std::string_view kKnown[] = {".",      "..",      "null",   "zero", "full",
                                         "random", "urandom", "tty",    "pts",  "shm",
                                         "stdin",  "stdout",  "stderr", "fd",   "ptmx"};
  while (const dirent* item = dev == nullptr ? nullptr : ::readdir(dev)) {
    if (std::ranges::find(kKnown, std::string_view(item->d_name)) == std::end(kKnown))
      breach("A18 /dev/%s", item->d_name);
  }
  if (dev != nullptr) ::closedir(dev);
  DIR* proc = ::opendir("/proc");
  int processes = 0;
  while (const dirent* item = proc == nullptr ? nullptr : ::readdir(proc)) {
    processes += item->d_name[0] >= '1' && item->d_name[0] <= '9' ? 1 : 0;
  }
  if (proc != nullptr) ::closedir(proc);
  if (processes > 20) breach("A18 %d processes in sight", processes);
}

const char* wanted = nullptr;

int look(const char* path, const struct stat* about, int kind, FTW* where) {
  const std::string_view whole = path;
  if (whole == "/proc" || whole == "/sys") return FTW_SKIP_SUBTREE;
  if (std::strstr(path + where->base, wanted) != nullptr) breach("V6 found: %s", path);
  // below /usr only names are looked at: its content is the machine's, by rule
  if (kind != FTW_F || whole.starts_with("/usr/") || about->st_size > (1 << 20)) return FTW_CONTINUE;
  if (S_ISREG(about->st_mode) && content_of(path).find(wanted) != std::string::npos)
    breach("V6 found in: %s", path);
  return FTW_CONTINUE;
}

}  // namespace

int files(char**) {
  base();
  links_and_devices();
  descriptors_and_names();
  return 0;
}

int find(char** argv) {
  wanted = argv[0];
  ::nftw("/", look, 16, FTW_PHYS | FTW_ACTIONRETVAL);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strstr(*variable, wanted) != nullptr) breach("D1 in the environment: %s", *variable);
  }
  return 0;
}

int environment(char**) {
  for (char** variable = environ; *variable != nullptr; ++variable) std::printf("%s\n", *variable);
  return 0;
}

}  // namespace sandglass::tests::attack
