// Opening files so that no path, link or race leads out of the folder that one starts from (ADV-A1 to A3,
// FR-149 to FR-152), and doing so with the rights of the sandbox's user instead of init's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::init {

/// uid and gid that files are made and read with; none when init runs as that user already (rootless).
struct Identity {
  bool change = false;
  int keeper_fd = -1;  // pidfd of the process with which this one has to end; -1: none
  std::uint32_t uid = 1000;
  std::uint32_t gid = 1000;
};

/// While it lives, file access counts as the sandbox user's.
class AsUser {
 public:
  explicit AsUser(const Identity& identity);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  /// The kernel takes the death signal from a process that changes an id, also this one, and may make it
  /// dumpable: without it a sandbox that has once taken or given a file outlives its keeper (V1, V3, FR-147).
  /// A keeper that ended just then sent no signal: looked for afterwards, and followed.
  void keep_promises() const;

  bool changed_ = false;
  int keeper_fd_ = -1;
  int uid_before_ = 0;
  int gid_before_ = 0;
  int death_signal_ = 0;
};

/// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS; an invalid descriptor and
/// errno on failure. `path` empty: the folder itself. O_CLOEXEC is added.
engine::base::UniqueFd open_contained(int folder, const std::string& path, int flags, unsigned mode = 0);

/// A place named by a request: below the workspace, or absolute inside.
struct Place {
  engine::base::UniqueFd base;  // O_PATH
  std::string path;             // relative to base, checked; empty: base itself
};

/// path_refused for paths with "..", NUL, invalid UTF-8, overlong ones, and for /proc, /sys and /dev.
engine::base::Result<Place> resolve_place(const std::string& workspace, std::string_view path);

/// The error for a failed file call: path_refused for what containment refuses, disk_full, not_found, else
/// io_error. `path` is quoted safely.
engine::base::Error file_error(int error, std::string_view doing, std::string_view path);

}  // namespace sandglass::sandbox_runtime::init
