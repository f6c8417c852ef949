#include "sandbox-runtime/init/contained.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/text.h"
#include "sandbox-runtime/frames/tree_stream.h"

namespace sandglass::sandbox_runtime::init {

using engine::base::Code;
using engine::base::Error;
using engine::base::fail;
using engine::base::Result;
using engine::base::UniqueFd;

AsUser::AsUser(const Identity& identity) : changed_(identity.change), keeper_fd_(identity.keeper_fd) {
  if (!changed_) return;
  prctl(PR_GET_PDEATHSIG, &death_signal_, 0, 0, 0);
  setfsgid(identity.gid);
  setfsuid(identity.uid);
  keep_promises();
}

AsUser::~AsUser() {
  if (!changed_) return;
  setfsuid(0);
  setfsgid(0);
  keep_promises();
}

void AsUser::keep_promises() const {
  prctl(PR_SET_PDEATHSIG, death_signal_, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  pollfd keeper{keeper_fd_, POLLIN, 0};  // a negative one is ignored
  if (death_signal_ != 0 && poll(&keeper, 1, 0) > 0 && (keeper.revents & POLLIN) != 0) _exit(0);
}

UniqueFd open_contained(int folder, const std::string& path, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags) | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const char* name = path.empty() ? "." : path.c_str();
  while (true) {
    const long fd = syscall(SYS_openat2, folder, name, &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EINTR && errno != EAGAIN) return {};
  }
}

Result<Place> resolve_place(const std::string& workspace, std::string_view path) {
  const auto refuse = [&](const std::string& why) {
    return fail(Code::path_refused,
                "path " + engine::base::quote_for_terminal(path.substr(0, 200)) + ": " + why);
  };
  if (!engine::base::is_utf8(path)) return refuse("it is not valid UTF-8");
  std::string base = workspace;
  if (path == workspace || path.starts_with(workspace + "/")) {
    path.remove_prefix(workspace.size());
    while (path.starts_with('/')) path.remove_prefix(1);
  } else if (path.starts_with('/')) {
    base = "/";
    while (path.starts_with('/')) path.remove_prefix(1);
    for (std::string_view kernel : {"proc", "sys", "dev"}) {
      if (path == kernel || (path.starts_with(kernel) && path[kernel.size()] == '/')) {
        return refuse("nothing is read from or written to the kernel's own file systems");
      }
    }
  }
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path == ".") path = {};
  if (!path.empty()) {
    if (auto status = frames::check_tree_path(path); !status) return refuse(status.error().message);
  }
  Place place;
  place.base.reset(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.base) return std::unexpected(file_error(errno, "opening", base));
  place.path = path;
  return place;
}

Error file_error(int error, std::string_view doing, std::string_view path) {
  Code code = Code::io_error;
  const char* why = std::strerror(error);
  switch (error) {
    case ELOOP:
      code = Code::path_refused;
      why = "a symbolic link is in the way; links are never followed here";
      break;
    case EXDEV:
      code = Code::path_refused;
      why = "it leads out of its folder";
      break;
    case ENOTDIR:
    case ENAMETOOLONG:
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
      code = Code::path_refused;
      break;
    case ENOSPC:
    case EDQUOT:
      code = Code::disk_full;
      break;
    case ENOENT:
      code = Code::not_found;
      break;
    default:
      break;
  }
  return {code,
          std::string(doing) + " " + engine::base::quote_for_terminal(path.substr(0, 400)) + ": " + why};
}

namespace {

/// Unlinks what is in `folder`; folders in it are moved up into `top` under fresh names. False: nothing could
/// be done.
bool flatten(int top, UniqueFd folder, std::uint64_t& fresh) {
  DIR* stream = fdopendir(folder.release());
  if (stream == nullptr) return false;
  const int fd = dirfd(stream);
  bool fine = true;
  while (const dirent* item = readdir(stream)) {
    const std::string_view name = item->d_name;
    if (name == "." || name == "..") continue;
    if (unlinkat(fd, item->d_name, 0) == 0) continue;
    // a folder that forbids it to its owner would otherwise stay: it is opened up first
    fchmodat(fd, item->d_name, 0700, 0);
    bool moved = false;
    for (int tries = 0; !moved && tries < 100; ++tries) {
      const std::string up = ".up-" + std::to_string(fresh++);
      moved = renameat(fd, item->d_name, top, up.c_str()) == 0;
    }
    fine = moved && fine;
  }
  closedir(stream);
  return fine;
}

}  // namespace

void remove_tree(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return;
  UniqueFd top = open_contained(folder, name, O_RDONLY | O_DIRECTORY);
  if (!top) return;
  std::uint64_t fresh = 0;
  // Each pass empties every folder that lies directly in `top` by one level; what it finds there comes up.
  for (bool again = true; again;) {
    again = false;
    DIR* stream = fdopendir(fcntl(top.get(), F_DUPFD_CLOEXEC, 3));
    if (stream == nullptr) return;
    rewinddir(stream);
    bool moved = true;
    while (const dirent* item = readdir(stream)) {
      const std::string_view entry = item->d_name;
      if (entry == "." || entry == "..") continue;
      if (unlinkat(top.get(), item->d_name, 0) == 0) continue;
      if (unlinkat(top.get(), item->d_name, AT_REMOVEDIR) == 0) continue;
      fchmodat(top.get(), item->d_name, 0700, 0);
      UniqueFd below = open_contained(top.get(), item->d_name, O_RDONLY | O_DIRECTORY);
      moved = below && flatten(top.get(), std::move(below), fresh) && moved;
      if (unlinkat(top.get(), item->d_name, AT_REMOVEDIR) != 0) moved = false;
      again = true;
    }
    closedir(stream);
    if (!moved) break;
  }
  unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

}  // namespace sandglass::sandbox_runtime::init
