#include "engine/base/private_root.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/unique_fd.h"

namespace sandglass::engine::base {
namespace {

/// Where the new root hangs until pivot_root; every machine has it.
constexpr const char* kStage = "/tmp";
constexpr std::uint64_t kQuiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};

std::unexpected<Error> failed(const std::string& what) {
  return fail(Code::io_error, "private root: " + what + ": " + std::strerror(errno));
}

bool is_forbidden(int error) {
  return error == EPERM || error == EACCES || error == ENOSYS;
}

/// A mount that hangs nowhere yet.
struct Clone {
  std::string path;
  UniqueFd mount;
  bool is_folder = true;
};

bool set_attributes(int mount, std::uint64_t attributes) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  return ::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &wanted, sizeof wanted) == 0;
}

/// `name` empty: of `at` itself. An invalid descriptor: errno says why.
UniqueFd clone_tree(int at, const char* name, unsigned flags = 0) {
  const unsigned empty = *name == '\0' ? AT_EMPTY_PATH : 0U;
  return UniqueFd(::open_tree(at, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | empty | flags));
}

UniqueFd new_file_system(const char* type, std::initializer_list<std::pair<const char*, const char*>> options,
                         std::uint64_t attributes) {
  const UniqueFd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return {};
  for (const auto& [key, value] : options) {
    if (::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value, 0) != 0) return {};
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  return UniqueFd(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)));
}

/// Makes what a mount or link hangs on: the folders above `path`, and itself unless only those are asked for.
enum class Place { parents, folder, file };
bool make_place(int root, const std::string& path, Place place) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string above = path.substr(1, at - 1);
    if (!above.empty() && ::mkdirat(root, above.c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  const char* name = path.c_str() + 1;
  if (place == Place::folder) return ::mkdirat(root, name, 0755) == 0 || errno == EEXIST;
  if (place == Place::file)
    return UniqueFd(::openat(root, name, O_RDONLY | O_CREAT | O_CLOEXEC, 0644)).valid();
  return true;
}

Status attach(int root, const Clone& clone) {
  if (!make_place(root, clone.path, clone.is_folder ? Place::folder : Place::file) ||
      ::move_mount(clone.mount.get(), "", root, clone.path.c_str() + 1, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("binding " + clone.path);
  }
  return {};
}

/// What of the machine can be read. The stage hides whatever lies below it, so this is done before.
Result<std::vector<Clone>> clone_readable(const std::vector<std::string>& paths) {
  std::vector<Clone> clones;
  const auto add = [&](const std::string& path, std::uint64_t attributes) -> Status {
    UniqueFd mount = clone_tree(AT_FDCWD, path.c_str());
    if (!mount) return errno == ENOENT || errno == ENOTDIR ? Status() : Status(failed("taking " + path));
    struct stat about{};
    if (::fstat(mount.get(), &about) != 0 || !set_attributes(mount.get(), attributes))
      return failed("protecting " + path);
    clones.push_back({path, std::move(mount), S_ISDIR(about.st_mode)});
    return {};
  };
  for (const char* device : kDevices) {
    if (auto added = add(device, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC); !added)
      return std::unexpected(added.error());
  }
  for (const std::string& path : paths) {
    if (auto added = add(path, kQuiet | MOUNT_ATTR_RDONLY); !added) return std::unexpected(added.error());
  }
  return clones;
}

/// The data folder for reading, then those parts of it that can be written.
Result<std::vector<Clone>> clone_folder(const PrivateRoot& wanted) {
  std::vector<Clone> clones;
  if (wanted.folder.empty()) return clones;
  const UniqueFd folder(::open(wanted.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return failed("opening " + wanted.folder);
  UniqueFd whole = clone_tree(folder.get(), "");
  if (!whole || !set_attributes(whole.get(), kQuiet | MOUNT_ATTR_RDONLY))
    return failed("taking " + wanted.folder);
  clones.push_back({kBoundFolder, std::move(whole), true});
  for (const std::string& name : wanted.writable) {
    UniqueFd part = clone_tree(folder.get(), name.c_str(), AT_SYMLINK_NOFOLLOW);
    struct stat about{};
    if (!part || ::fstat(part.get(), &about) != 0 || !set_attributes(part.get(), kQuiet))
      return failed("taking " + wanted.folder + "/" + name);
    if (S_ISLNK(about.st_mode)) {
      errno = ELOOP;
      return failed("taking " + wanted.folder + "/" + name);
    }
    clones.push_back({std::string(kBoundFolder) + "/" + name, std::move(part), S_ISDIR(about.st_mode)});
  }
  return clones;
}

/// Sockets deep in the tree are reached by /proc/self/fd; of other processes nothing is shown. Where a proc
/// of its own is refused, there is none.
Status mount_proc(int root) {
  const UniqueFd proc =
      new_file_system("proc", {{"subset", "pid"}, {"hidepid", "invisible"}}, kQuiet | MOUNT_ATTR_RDONLY);
  if (!proc) return is_forbidden(errno) || errno == EINVAL ? Status() : Status(failed("making /proc"));
  if (!make_place(root, "/proc", Place::folder) ||
      ::move_mount(proc.get(), "", root, "proc", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("mounting /proc");
  }
  return {};
}

Status build(int root, const PrivateRoot& wanted, const std::vector<Clone>& clones, std::string& path) {
  for (const Clone& clone : clones) {
    if (auto attached = attach(root, clone); !attached) return attached;
  }
  if (auto mounted = mount_proc(root); !mounted) return mounted;
  path = wanted.folder.empty() ? "" : kBoundFolder;
  if (path.empty() || wanted.folder.front() != '/' || wanted.folder == path) return {};
  if (make_place(root, wanted.folder, Place::parents) &&
      ::symlinkat(kBoundFolder, root, wanted.folder.c_str() + 1) == 0) {
    path = wanted.folder;
  }
  return {};
}

Status move_into(int root) {
  mount_attr frozen{};
  frozen.attr_set = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(root, "", AT_EMPTY_PATH, &frozen, sizeof frozen) != 0)
    return failed("freezing the root");
  if (::fchdir(root) != 0) return failed("entering the root");
  if (::syscall(SYS_pivot_root, ".", ".") == 0) {
    if (::umount2(".", MNT_DETACH) != 0) return failed("leaving the old root");
  } else if (errno != EINVAL || ::chroot(".") != 0) {  // EINVAL: we are in a chroot, which cannot be pivoted
    return failed("pivot_root");
  }
  if (::chdir("/") != 0) return failed("entering the root");
  return {};
}

}  // namespace

Result<std::optional<std::string>> enter_private_root(const PrivateRoot& wanted) {
  if (::unshare(CLONE_NEWNS) != 0) {
    if (is_forbidden(errno)) return std::nullopt;
    return failed("unshare");
  }
  mount_attr alone{};
  alone.propagation = MS_PRIVATE;
  if (::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &alone, sizeof alone) != 0) {
    if (is_forbidden(errno)) return std::nullopt;
    return failed("making the mounts private");
  }
  auto clones = clone_readable(wanted.readable);
  if (!clones) return std::unexpected(clones.error());
  auto folder = clone_folder(wanted);
  if (!folder) return std::unexpected(folder.error());
  for (Clone& clone : *folder) clones->push_back(std::move(clone));
  const UniqueFd root = new_file_system("tmpfs", {{"size", "1m"}, {"mode", "0755"}}, kQuiet);
  if (!root || ::move_mount(root.get(), "", AT_FDCWD, kStage, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("making the root");
  }
  std::string path;
  const mode_t mask = ::umask(022);
  const Status built = build(root.get(), wanted, *clones, path);
  ::umask(mask);
  if (!built) return std::unexpected(built.error());
  if (auto moved = move_into(root.get()); !moved) return std::unexpected(moved.error());
  return path;
}

}  // namespace sandglass::engine::base
