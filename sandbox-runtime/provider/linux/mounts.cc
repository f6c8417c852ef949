#include "sandbox-runtime/provider/linux/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::UniqueFd;

/// Where the new root hangs until pivot_root; every machine has it.
constexpr const char* kStage = "/tmp";
constexpr const char* kHidden = ".hidden";
constexpr const char* kEmptyFolder = ".hidden/folder";
constexpr const char* kEmptyFile = ".hidden/file";

constexpr std::uint64_t kQuiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

struct Device {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr Device kDevices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

/// Rootless: the machine's own node, checked to be the device that it claims to be.
int bind_device(const Device& device, int root) {
  const std::string path = std::string("dev/") + device.name;
  const UniqueFd place(::openat(root, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!place) return errno;
  const UniqueFd node = clone_mount(AT_FDCWD, (std::string("/dev/") + device.name).c_str(), false);
  if (!node) return errno;
  struct stat about{};
  if (::fstat(node.get(), &about) != 0) return errno;
  if (!S_ISCHR(about.st_mode) || about.st_rdev != ::makedev(device.major, device.minor)) return ENXIO;
  if (const int error = set_attributes(node.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false))
    return error;
  return attach(node.get(), root, path.c_str());
}

int make_device(const Device& device, int root) {
  const std::string path = std::string("dev/") + device.name;
  if (::mknodat(root, path.c_str(), S_IFCHR | 0666, ::makedev(device.major, device.minor)) != 0) return errno;
  return ::fchmodat(root, path.c_str(), 0666, 0) == 0 ? 0 : errno;
}

/// Owner of what commands may write, as this process sees numbers before it has the inside identity.
std::uint32_t command_owner(const PlanView& plan) {
  return plan.has(kPlanRootless) ? ::geteuid() : plan.header().uid_base + kCommandUid;
}

int writable_tmpfs(const PlanView& plan, int root, const char* path, std::uint64_t bytes,
                   std::uint64_t inodes, const char* mode) {
  const UniqueFd mount = new_file_system("tmpfs",
                                         {{"size", std::to_string(bytes)},
                                          {"nr_inodes", std::to_string(inodes)},
                                          {"mode", mode},
                                          {"uid", std::to_string(command_owner(plan))},
                                          {"gid", std::to_string(command_owner(plan))}},
                                         kQuiet);
  if (!mount) return errno;
  return attach(mount.get(), root, path);
}

/// Puts an empty thing over `path`, read-only as seal_hidden has made it.
int cover(int root, const char* source, const char* path) {
  const UniqueFd hidden = clone_mount(root, source, false);
  if (!hidden) return errno;
  return attach(hidden.get(), root, path);
}

}  // namespace

int write_entry(EntryKind kind, std::uint32_t mode, const char* path, std::string_view content, int root) {
  switch (kind) {
    case EntryKind::folder:
      if (::mkdirat(root, path, mode) != 0) return errno;
      return ::fchmodat(root, path, mode, 0) == 0 ? 0 : errno;
    case EntryKind::link:
      return ::symlinkat(content.data(), root, path) == 0 ? 0 : errno;
    case EntryKind::file: {
      const UniqueFd file(::openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
      if (!file || !write_all(file.get(), content)) return errno;
      return ::fchmod(file.get(), mode) == 0 ? 0 : errno;
    }
    case EntryKind::hide_folder:
    case EntryKind::hide_file:
      return 0;  // bind_usr
  }
  return EINVAL;
}

int make_mounts_private() {
  mount_attr wanted{};
  wanted.propagation = MS_PRIVATE;
  return ::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &wanted, sizeof wanted) == 0 ? 0 : errno;
}

UniqueFd new_file_system(const char* type, std::initializer_list<MountOption> options,
                         std::uint64_t attributes) {
  const UniqueFd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return {};
  for (const MountOption& option : options) {
    const int done =
        option.value.empty()
            ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, option.key, nullptr, 0)
            : ::fsconfig(context.get(), FSCONFIG_SET_STRING, option.key, option.value.c_str(), 0);
    if (done != 0) return {};
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  return UniqueFd(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)));
}

UniqueFd clone_mount(int folder_fd, const char* path, bool recursive) {
  const unsigned flags =
      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | (recursive ? AT_RECURSIVE : 0);
  return UniqueFd(::open_tree(folder_fd, path, flags));
}

UniqueFd clone_detached(int mount_fd) {
  return UniqueFd(::open_tree(mount_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
}

UniqueFd clone_tree(int mount_fd) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE;
  return UniqueFd(::open_tree(mount_fd, "", flags));
}

int set_attributes(int mount_fd, std::uint64_t attributes, bool recursive) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
  return ::mount_setattr(mount_fd, "", flags, &wanted, sizeof wanted) == 0 ? 0 : errno;
}

int attach(int mount_fd, int root_fd, const char* path) {
  return ::move_mount(mount_fd, "", root_fd, path, MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0 : errno;
}

namespace {

UniqueFd new_root() {
  return new_file_system("tmpfs", {{"size", "8m"}, {"nr_inodes", "4096"}, {"mode", "0755"}},
                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/// What covers other files comes from a mount that has the attributes already; a clone of a part has them
/// too.
int seal_hidden(int root) {
  const UniqueFd hidden = clone_mount(root, kHidden, false);
  if (!hidden) return errno;
  if (const int error = set_attributes(hidden.get(), kQuiet | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, false))
    return error;
  return attach(hidden.get(), root, kHidden);
}

int fill_root(const PlanView& plan, int etc, int root) {
  ::umask(0);
  for (const PlanEntry& entry : plan.entries()) {
    const int error = write_entry(entry.kind, entry.mode, plan.path(entry), plan.content(entry), root);
    if (error != 0) return error;
  }
  ::umask(022);
  if (const int error = seal_hidden(root)) return error;
  return etc >= 0 ? attach(etc, root, "etc") : 0;
}

}  // namespace

int build_root(const PlanView& plan, int etc, UniqueFd& root) {
  root = new_root();
  if (!root) return errno;
  if (const int error = attach(root.get(), AT_FDCWD, kStage)) return error;
  return fill_root(plan, etc, root.get());
}

int build_base(const PlanView& plan, int etc, UniqueFd& root) {
  root = new_root();
  if (!root) return errno;
  if (const int error = fill_root(plan, etc, root.get())) return error;
  if (const int error = bind_usr(plan, root.get())) return error;
  if (const int error = make_devices(plan, root.get())) return error;
  if (const int error = set_attributes(root.get(), MOUNT_ATTR_RDONLY, false)) return error;
  mount_attr wanted{};
  wanted.propagation = MS_PRIVATE;
  const unsigned flags = AT_EMPTY_PATH | AT_RECURSIVE;
  return ::mount_setattr(root.get(), "", flags, &wanted, sizeof wanted) == 0 ? 0 : errno;
}

int hang_up_base(int base, UniqueFd& root) {
  root.reset(::fcntl(base, F_DUPFD_CLOEXEC, 3));
  return root ? attach(base, AT_FDCWD, kStage) : errno;
}

int bind_usr(const PlanView& plan, int root) {
  // Rootless the kernel does not let go of mounts below /usr, so they come along.
  const bool recursive = plan.has(kPlanRootless);
  const UniqueFd usr = clone_mount(AT_FDCWD, "/usr", recursive);
  if (!usr) return errno;
  if (const int error = set_attributes(usr.get(), kQuiet | MOUNT_ATTR_RDONLY, recursive)) return error;
  if (const int error = attach(usr.get(), root, "usr")) return error;
  for (const PlanEntry& entry : plan.entries()) {
    if (entry.kind != EntryKind::hide_folder && entry.kind != EntryKind::hide_file) continue;
    const bool folder = entry.kind == EntryKind::hide_folder;
    int error = cover(root, folder ? kEmptyFolder : kEmptyFile, plan.path(entry));
    // since the list was made it has become the other kind, or has gone: then there is nothing to hide
    if (error == ENOTDIR) error = cover(root, folder ? kEmptyFile : kEmptyFolder, plan.path(entry));
    if (error != 0 && error != ENOENT) return error;
  }
  return 0;
}

int make_devices(const PlanView& plan, int root) {
  for (const Device& device : kDevices) {
    if (const int error = plan.has(kPlanRootless) ? bind_device(device, root) : make_device(device, root)) {
      return error;
    }
  }
  return 0;
}

int mount_terminals(int root) {
  // The machine has some thousands for everybody together.
  const UniqueFd pts =
      new_file_system("devpts", {{"newinstance", ""}, {"ptmxmode", "0666"}, {"mode", "0600"}, {"max", "64"}},
                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  if (!pts) return errno;
  return attach(pts.get(), root, "dev/pts");
}

int mount_temporary(const PlanView& plan, int root) {
  constexpr std::uint64_t kInodes = 65536;
  if (const int error = writable_tmpfs(plan, root, "tmp", plan.header().tmp_bytes, kInodes, "1777"))
    return error;
  return writable_tmpfs(plan, root, "dev/shm", plan.header().shm_bytes, kInodes, "1777");
}

int fill_work(int disk, std::uint32_t owner) {
  for (const char* part : {"workspace", "home"}) {
    if (::mkdirat(disk, part, 0755) != 0 && errno != EEXIST) return errno;
    if (::fchownat(disk, part, owner, owner, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  }
  return 0;
}

int mount_work(const PlanView& plan, int root, int disk) {
  UniqueFd own;
  if (disk < 0) {
    own = new_file_system("tmpfs",
                          {{"size", std::to_string(plan.header().work_bytes)},
                           {"nr_inodes", std::to_string(plan.header().work_inodes)},
                           {"mode", "0755"}},
                          kQuiet);
    if (!own) return errno;
    disk = own.get();
    if (const int error = fill_work(disk, command_owner(plan))) return error;
  }
  // Hung up at one place first, because parts of a detached mount cannot be cloned everywhere.
  if (const int error = attach(disk, root, "workspace")) return error;
  const UniqueFd home = clone_mount(disk, "home", false);
  const UniqueFd work = clone_mount(disk, "workspace", false);
  if (!home || !work) return errno;
  if (const int error = attach(home.get(), root, "home/sandbox")) return error;
  return attach(work.get(), root, "workspace");
}

int leave_host_root(int root) {
  if (const int error = set_attributes(root, MOUNT_ATTR_RDONLY, false)) return error;
  if (::fchdir(root) != 0) return errno;
  if (::syscall(__NR_pivot_root, ".", ".") != 0) return errno;
  if (::umount2(".", MNT_DETACH) != 0) return errno;
  return ::chdir("/") == 0 ? 0 : errno;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
