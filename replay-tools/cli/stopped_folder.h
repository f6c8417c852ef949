// A data folder with no server on it, and none while this lives: for commands that change its journal.
// Errors: folder_locked, naming the process; those of the folder.
#pragma once

#include <utility>

#include "engine/base/data_folder.h"
#include "replay-tools/cli/session.h"

namespace sandglass::replay_tools::cli {

class StoppedFolder {
 public:
  static base::Result<StoppedFolder> take(const Session& session) {
    auto path = session.folder();
    if (!path) return std::unexpected(path.error());
    auto folder = base::DataFolder::open_read_only(*path);
    if (!folder) return std::unexpected(folder.error());
    auto supervisor = base::FileLock::take(folder->file("supervisor.lock"));
    if (!supervisor) return std::unexpected(supervisor.error());
    auto engine = base::FileLock::take(folder->file("lock"));
    if (!engine) return std::unexpected(engine.error());
    return StoppedFolder(std::move(*folder), std::move(*supervisor), std::move(*engine));
  }
  const base::DataFolder& folder() const { return folder_; }

 private:
  StoppedFolder(base::DataFolder folder, base::FileLock supervisor, base::FileLock engine)
      : folder_(std::move(folder)), supervisor_(std::move(supervisor)), engine_(std::move(engine)) {}

  base::DataFolder folder_;
  base::FileLock supervisor_;
  base::FileLock engine_;
};

}  // namespace sandglass::replay_tools::cli
