#include "sandbox-runtime/provider/linux/proc_masks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "sandbox-runtime/provider/linux/mounts.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::UniqueFd;

/// Shown as the kernel has them.
constexpr std::string_view kShown[] = {"self",   "thread-self", "mounts",  "net",         "stat",
                                       "uptime", "loadavg",     "version", "filesystems", "sysvipc"};
/// Covered by a synthesised file.
constexpr std::string_view kSynthesised[] = {"meminfo", "cpuinfo"};
/// Shown, but read-only.
constexpr std::string_view kReadOnly[] = {"sys"};

bool is_in(std::string_view name, const auto& list) {
  return std::ranges::find(list, name) != std::end(list);
}

/// `hidden`: a part of .hidden, whose attributes come with it. Both from the root, where we are: there are
/// forty of these, and one call each takes half the time of a clone and its attachment.
int cover(const char* hidden, const std::string& target) {
  return ::mount(hidden, target.c_str(), nullptr, MS_BIND, nullptr) == 0 ? 0 : errno;
}

int make_read_only(int root, const std::string& target) {
  const UniqueFd mount = clone_mount(root, target.c_str(), false);
  if (!mount) return errno;
  const std::uint64_t attributes =
      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  if (const int error = set_attributes(mount.get(), attributes, false)) return error;
  return attach(mount.get(), root, target.c_str());
}

int mask_one(int root, const dirent& entry) {
  const std::string_view name = entry.d_name;
  const std::string path = "proc/" + std::string(name);
  if (name.starts_with(".") || (name[0] >= '0' && name[0] <= '9') || is_in(name, kShown)) return 0;
  if (is_in(name, kReadOnly)) return make_read_only(root, path);
  if (is_in(name, kSynthesised)) return cover((".hidden/" + std::string(name)).c_str(), path);
  if (entry.d_type == DT_LNK) return 0;  // points into a process's own folder
  return cover(entry.d_type == DT_DIR ? ".hidden/folder" : ".hidden/file", path);
}

}  // namespace

int mount_proc(int root) {
  const UniqueFd proc = new_file_system("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (!proc) return errno;
  return attach(proc.get(), root, "proc");
}

int mask_proc(int root) {
  if (::fchdir(root) != 0) return errno;
  const int fd = ::openat(root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd), &::closedir);
  if (folder == nullptr) return errno;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (const int error = mask_one(root, *entry)) return error;
    errno = 0;
  }
  return errno;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
