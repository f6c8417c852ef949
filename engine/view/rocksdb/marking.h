// Keeps the mark (durable_mark.h) of a database that is open for writing: after each synced write it says how
// far the files are durable. Internal to engine/view/rocksdb.
//
// Ownership: the database outlives this. Thread rule: one thread at a time; manifest_moved() from any.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <chrono>
#include <string>

#include "engine/base/result.h"
#include "engine/view/rocksdb/durable_mark.h"

namespace sandglass::engine::view {

class Marking {
 public:
  explicit Marking(std::string file) : mark_(std::move(file)) {}
  /// Makes the newest mark survive a loss of power.
  ~Marking();

  DurableMark& mark() { return mark_; }
  /// The database is open and nothing has been written yet.
  base::Status begin(rocksdb::DB& db, const std::string& path);
  /// A write was synced, and none has begun since: before it is acknowledged.
  base::Status wrote();
  /// The MANIFEST has become longer, or is another one.
  void manifest_moved() { manifest_moved_ = true; }
  /// What was written last is not known: the mark stays where it is.
  void give_up() { db_ = nullptr; }

 private:
  base::Status read_manifest(DurablePoint& point);

  DurableMark mark_;
  std::string path_;
  std::uint64_t first_log_ = 0;  // 0: none is written to yet
  rocksdb::DB* db_ = nullptr;    // null: nothing is marked
  std::atomic<bool> manifest_moved_{false};
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace sandglass::engine::view
