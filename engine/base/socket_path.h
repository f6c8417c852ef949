// Addresses of Unix sockets in the file system. sun_path holds 107 bytes; a data folder may lie deeper than
// that, and its sockets must work there too.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::base {

/// The address of `path` for bind and connect. One that is too long for sun_path is reached through a
/// descriptor of its folder, which this object holds: keep it until the call has returned. Thread rule: a
/// value.
class SocketPath {
 public:
  /// Errors: io_error, when the folder cannot be opened or the name alone is too long.
  static Result<SocketPath> make(const std::string& path);

  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return sizeof address_; }

 private:
  SocketPath() = default;

  UniqueFd folder_;
  sockaddr_un address_{};
};

}  // namespace sandglass::engine::base
