// Copies of the journal as it is at a moment, for backups that are made while the engine goes on (E17). They
// lie in the journal's own folder, so that their table files are second names and no copies.
//
// Ownership: the database outlives it; checkpoints may outlive it. Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/view/rocksdb/database.h"

namespace sandglass::engine::server::compose {

class Checkpoints {
 public:
  /// Removes those that a killed engine has left.
  Checkpoints(const base::DataFolder& folder, const view::Database& database);

  /// The name below the data folder; its files are removed with the last owner. overloaded: there are as many
  /// as may be, since each keeps from the disk what the journal has given up since. Errors of the database.
  base::Result<std::shared_ptr<const std::string>> make();

 private:
  const std::string path_;
  const view::Database& database_;
  std::atomic<std::uint64_t> last_{0};
  std::shared_ptr<std::atomic<int>> held_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace sandglass::engine::server::compose
