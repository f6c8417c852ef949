#include "engine/base/socket_path.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace sandglass::engine::base {

Result<SocketPath> SocketPath::make(const std::string& path) {
  SocketPath made;
  made.address_.sun_family = AF_UNIX;
  std::string name = path;
  if (name.size() >= sizeof made.address_.sun_path) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    made.folder_.reset(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!made.folder_) {
      return fail(Code::io_error,
                  "cannot open the folder of the socket " + path + ": " + std::strerror(errno));
    }
    name = "/proc/self/fd/" + std::to_string(made.folder_.get()) + "/" + path.substr(slash + 1);
  }
  if (path.empty() || name.size() >= sizeof made.address_.sun_path) {
    return fail(Code::io_error, "the name of the socket is empty or too long: " + path);
  }
  name.copy(made.address_.sun_path, name.size());
  return made;
}

}  // namespace sandglass::engine::base
