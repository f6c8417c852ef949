#include "engine/base/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/data_folder.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::base {

Status sync_folder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return std::unexpected(system_error("cannot sync", path, errno));
  return {};
}

}  // namespace sandglass::engine::base
