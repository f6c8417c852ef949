// One RocksDB database in a folder: rows of view and journal together, so that a batch is one atomic, synced
// write (J7). No RocksDB type is in this header.
//
// Recovery accepts a last write that is cut short and was not acknowledged, and refuses every other damage of
// the log: synced data is never rolled back in silence (J7, FR-85, FR-86). What was acknowledged is our own
// mark's matter (durable_mark.h), outside the folder.
// A damaged table file is found when it is read: the scan fails with record_damaged, naming file and place.
//
// Thread rule: scan and write from any thread. Errors: folder_locked, record_damaged, disk_full, io_error.
#pragma once

#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/view/view.h"

namespace rocksdb {
class Env;
}

namespace sandglass::engine::view {

struct DatabaseOptions {
  std::string path;
  std::string mark;  // file of the mark (durable_mark.h); empty: PATH.mark
  bool create_if_missing = true;
  bool read_only = false;  // takes no lock and changes nothing
  /// Without a log of its own, as a view whose records are kept elsewhere (J7): writes are not synced, and a
  /// crash loses the newest of them, never a part of one nor one before another.
  bool log = true;
  bool flush_on_close = true;   // false, without a log: closing loses what a crash would
  rocksdb::Env* env = nullptr;  // for tests with a disk of their own; must outlive the database
};

class Database {
 public:
  static base::Result<std::unique_ptr<Database>> open(const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  base::Result<ScanResult> scan(const ScanRequest& request) const;

  /// Writes all groups as one batch with one sync (none without a log). After an error every later write
  /// fails too: what a failed sync has left behind is not known, so the folder must be opened again (J6).
  base::Status write(std::span<const std::vector<ViewChange>> groups);

  /// All that was written is on the disk, without a log too; closing alone does not say so.
  base::Status flush();

  /// The rows as they are now, as a database of its own in `folder`, which must not exist: table files under
  /// a second name, where they lie on the same file system, so that it costs little (E17).
  base::Status checkpoint(const std::string& folder) const;

  /// Whoever checks an owner epoch and writes holds it shared; whoever raises one holds it alone.
  std::shared_mutex& owner_mutex() { return owner_mutex_; }

 private:
  struct Impl;
  base::Result<ScanResult> get(const std::string& key) const;
  explicit Database(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  std::shared_mutex owner_mutex_;
};

}  // namespace sandglass::engine::view
