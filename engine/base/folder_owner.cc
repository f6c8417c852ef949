#include "engine/base/folder_owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::base {
namespace {

constexpr int kDeepest = 16;
constexpr const char* kOwnRoot = "or set processes.first_uid: 0, and the engine runs as root";

struct Owner {
  uid_t uid;
  gid_t gid;
  bool is(const struct stat& about) const { return about.st_uid == uid && about.st_gid == gid; }
};

Status give(int fd, const std::string& path, const Owner& owner) {
  if (fchownat(fd, "", owner.uid, owner.gid, AT_EMPTY_PATH) == 0) return {};
  const int reason = errno;
  Error error = system_error("cannot give to uid " + std::to_string(owner.uid) + ", which is the engine's,",
                             path, reason);
  error.message += std::string("; use a file system that has owners, ") + kOwnRoot;
  return std::unexpected(std::move(error));
}

Status give_file(int parent, const char* name, const std::string& path, const Owner& owner) {
  const UniqueFd file(openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat about{};
  if (!file || fstat(file.get(), &about) != 0)
    return std::unexpected(system_error("cannot open", path, errno));
  if (owner.is(about)) return {};
  if (S_ISREG(about.st_mode) && about.st_nlink > 1) {
    return fail(Code::io_error, path +
                                    " has a second name (a hard link) and is not given to the engine's uid; "
                                    "copy it over itself, or remove the other name");
  }
  return give(file.get(), path, owner);
}

Status give_tree(int parent, const char* name, const std::string& path, const Owner& owner, int depth);

Status give_contents(const UniqueFd& folder, const std::string& path, const Owner& owner, int depth) {
  if (depth > kDeepest) return fail(Code::io_error, path + " is deeper than any data folder");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      fdopendir(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), &closedir);
  if (entries == nullptr) return std::unexpected(system_error("cannot read the folder", path, errno));
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name(entry->d_name);
    if (name == "." || name == "..") continue;
    struct stat about{};
    if (fstatat(folder.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
      return std::unexpected(system_error("cannot look at", path + "/" + name, errno));
    const auto done = S_ISDIR(about.st_mode)
                          ? give_tree(folder.get(), name.c_str(), path + "/" + name, owner, depth + 1)
                          : give_file(folder.get(), name.c_str(), path + "/" + name, owner);
    if (!done) return done;
  }
  return {};
}

Result<UniqueFd> open_folder(int parent, const char* name, const std::string& path) {
  UniqueFd folder(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder) return folder;
  const int reason = errno;
  Error error = system_error("cannot open the folder", path, reason);
  if (reason == ELOOP || reason == ENOTDIR) {
    error.message = path +
                    " must be a folder, not a link: the engine sees nothing outside of the data folder; "
                    "bind-mount the other place here (mount --bind), " +
                    kOwnRoot;
  }
  return std::unexpected(std::move(error));
}

/// Itself last, so that one which belongs to the owner is known to be done.
Status give_tree(int parent, const char* name, const std::string& path, const Owner& owner, int depth) {
  auto folder = open_folder(parent, name, path);
  if (!folder) return std::unexpected(folder.error());
  struct stat about{};
  if (fstat(folder->get(), &about) != 0) return std::unexpected(system_error("cannot look at", path, errno));
  if (owner.is(about)) return {};
  if (auto done = give_contents(*folder, path, owner, depth); !done) return done;
  SG_CRASH_POINT("folder_owner.before_folder");
  return give(folder->get(), path, owner);
}

/// Versions before V2's uids kept the host's things in `run`, where the engine writes now. Only while that
/// folder has never been an engine's: what is in it is believed.
Status move_hosts_things(int top, const std::string& path) {
  struct stat about{};
  if (fstatat(top, "run", &about, AT_SYMLINK_NOFOLLOW) != 0 || about.st_uid != geteuid()) return {};
  for (const char* name : {"jails", "sandboxes"}) {
    const std::string from = std::string("run/") + name;
    const std::string to = std::string("host/") + name;
    if (renameat(top, from.c_str(), top, to.c_str()) != 0 && errno != ENOENT && errno != EEXIST &&
        errno != ENOTEMPTY && errno != EROFS) {
      return std::unexpected(system_error("cannot move to " + path + "/host", path + "/" + from, errno));
    }
  }
  for (const char* name : {"run/host.sock", "run/egress.sock", "run/host.lock"}) unlinkat(top, name, 0);
  return {};
}

Status make_parts(int top, const std::string& path) {
  if (mkdirat(top, "journal", 0700) != 0 && errno != EEXIST)
    return std::unexpected(system_error("cannot make the folder", path + "/journal", errno));
  const UniqueFd lock(openat(top, "lock", O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock) return std::unexpected(system_error("cannot open the lock", path + "/lock", errno));
  // Every uid may pass through to the host's socket; the data folder above lets nobody in but its owner.
  struct stat about{};
  if (fstatat(top, "host", &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(about.st_mode) ||
      about.st_uid != geteuid()) {
    return fail(Code::io_error, path + "/host must be a folder of the user who starts the server; remove it");
  }
  if ((about.st_mode & 07777) != 0711 && fchmodat(top, "host", 0711, 0) != 0)
    return std::unexpected(system_error("cannot open the way through", path + "/host", errno));
  return {};
}

}  // namespace

Status give_folder(const DataFolder& folder, uid_t uid, gid_t gid) {
  const std::string& path = folder.path();
  const Owner owner{uid, gid};
  const UniqueFd top(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat about{};
  if (!top || fstat(top.get(), &about) != 0)
    return std::unexpected(system_error("cannot open the data folder", path, errno));
  if (auto moved = move_hosts_things(top.get(), path); !moved) return moved;
  if (uid == geteuid()) return {};
  if (auto made = make_parts(top.get(), path); !made) return made;
  for (const char* name : {"journal", "blobs", "run"}) {
    if (auto done = give_tree(top.get(), name, folder.file(name), owner, 0); !done) return done;
  }
  // Small, and where people put files back as root: always looked through.
  for (const char* name : {"keys", "tokens"}) {
    auto part = open_folder(top.get(), name, folder.file(name));
    if (!part) return std::unexpected(part.error());
    if (auto done = give_contents(*part, folder.file(name), owner, 0); !done) return done;
    if (auto done = give_file(top.get(), name, folder.file(name), owner); !done) return done;
  }
  for (const char* name : {"format", "id", "lock"}) {
    if (auto done = give_file(top.get(), name, folder.file(name), owner); !done) return done;
  }
  if (owner.is(about)) return {};
  SG_CRASH_POINT("folder_owner.before_top");
  if (syncfs(top.get()) != 0)
    return std::unexpected(system_error("cannot sync the data folder", path, errno));
  log(LogLevel::info, "folder_given", {{"path", path}, {"from", about.st_uid}, {"to", uid}});
  return give(top.get(), path, owner);
}

}  // namespace sandglass::engine::base
