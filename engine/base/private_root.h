// A mount namespace of its own for a process of the server (V2): a read-only root in which nothing of the
// machine can be seen but what is asked for. What the process has loaded before, programs and libraries, it
// keeps. Thread rule: before the process has a second thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::engine::base {

/// Where the data folder is bound, whatever its path outside and whoever may enter the folders above it.
inline constexpr const char* kBoundFolder = "/run/sandglass/data";

struct PrivateRoot {
  /// Folders and files that keep their place, for reading; what does not exist is left out.
  std::vector<std::string> readable;
  /// Empty: none. A folder that is bound at kBoundFolder, for reading.
  std::string folder;
  /// Names directly below `folder` that can be written; each must exist and not be a symbolic link.
  std::vector<std::string> writable;
};

/// The path by which `folder` is reached from now on: as before, by a link to kBoundFolder, where that can be
/// made, so that messages name what people know. Nothing: this process may not mount, and nothing has changed
/// that could be seen. Needs CAP_SYS_ADMIN, and is called while it is still there. Errors: io_error.
Result<std::optional<std::string>> enter_private_root(const PrivateRoot& wanted);

}  // namespace sandglass::engine::base
