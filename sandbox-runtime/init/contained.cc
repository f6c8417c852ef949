#include "sandbox-runtime/init/contained.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
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
  gid_before_ = setfsgid(identity.gid);
  uid_before_ = setfsuid(identity.uid);
  keep_promises();
}

AsUser::~AsUser() {
  if (!changed_) return;
  setfsuid(static_cast<uid_t>(uid_before_));
  setfsgid(static_cast<gid_t>(gid_before_));
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

}  // namespace sandglass::sandbox_runtime::init
