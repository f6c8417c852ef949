// Remembers beside the database how far it was durable, so that a start sees what is missing (J7). RocksDB
// takes a log that was cut between two records, a newest log that is gone, or an older copy of its files for
// all there ever was.
//
// The mark is a file outside the folder, so that an older copy of the whole folder is seen too. It holds
// lower bounds, moved only after what they speak of was synced:
//
//   newest log and how many bytes of it are synced · MANIFEST and the same · the newest entry's number ·
//   the first log that the same process wrote
//
// It is written after each synced batch but itself synced only now and then: when a process is killed the
// mark is exact; after a loss of power it may be old, never too new, so it never refuses wrongly. Two slots
// are written in turn, each with a checksum: a torn write leaves the other. Both damaged: the start is
// refused. No mark at all: nothing to compare with (a folder that was copied alone), or an operator removed
// it to accept what is left.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::view {

struct DurablePoint {
  std::uint64_t log = 0;  // number in the file's name; 0: not known
  std::uint64_t log_bytes = 0;
  std::uint64_t manifest = 0;
  std::uint64_t manifest_bytes = 0;
  std::uint64_t entry = 0;  // RocksDB's sequence number
  /// The first log of the process that wrote `log`: those between were synced to their ends. What was before
  /// is in tables.
  std::uint64_t first_log = 0;

  friend bool operator==(const DurablePoint&, const DurablePoint&) = default;
};

class DurableMark {
 public:
  explicit DurableMark(std::string file) : file_(std::move(file)) {}

  /// Reads the mark. record_damaged: it is there, and neither slot is whole.
  base::Status read();
  const std::optional<DurablePoint>& point() const { return point_; }
  const std::string& file() const { return file_; }

  /// Makes the file if there is none, durable on return.
  base::Status begin_writing();
  /// Moves the mark; `sync` makes it survive a loss of power as well.
  base::Status move(const DurablePoint& point, bool sync);

 private:
  std::string file_;
  std::optional<DurablePoint> point_;
  std::uint64_t turn_ = 0;
  base::UniqueFd open_;
};

/// Compares the files in `folder` with the point, changing nothing. record_damaged names file, place and
/// remedy. `probe` is set when the files alone cannot tell: the database must be opened for reading, and its
/// newest entry compared.
base::Status check_files(const std::string& folder, const DurableMark& mark, bool& probe);
/// What the files alone do not show: the log of the mark is gone although the tables, which hold what was in
/// the logs before `first_log`, do not have it (FR-88).
base::Status check_logs(const std::string& folder, const DurableMark& mark, std::uint64_t first_log);
/// The database's newest entry is older than what was acknowledged.
base::Status check_entry(const std::string& folder, const DurableMark& mark, std::uint64_t newest);
/// The first damaged place in the folder's logs and MANIFEST, " (FILE at byte N: …)"; empty: none is found.
std::string damaged_place(const std::string& folder);

}  // namespace sandglass::engine::view
