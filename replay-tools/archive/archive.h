// One stream's history as a file, exactly as it is stored, for whoever reads it without its journal (D6): a
// debugger elsewhere, an auditor, a later version's tests.
//
//   "sandglass history 1\n" · journal id (varint length, text) · stream (17 bytes) · made (varint, wall ms) ·
//   per record: varint length of its row, row (engine/codec/record.h) · 0 · SHA-256 of all before
//
// Records begin with the stream's first and have no gap; each names the leaf of the one before it, so that
// the newest leaf stands for all of them: compare that with what the journal says (`sandglass audit verify`).
// There is no key in it: contents are as they are stored, and digests cannot be made anew without the key.
//
// Thread rule: one thread. Errors: io_error, disk_full; file_unreadable; record_damaged, format_unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/reader.h"

namespace sandglass::replay_tools::archive {

namespace base = engine::base;
namespace core = engine::core;

struct Exported {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  base::Hash256 leaf;  // of the newest record
};

/// Writes the stream's history up to now; the file is there whole or not at all. not_found: no such stream.
base::Result<Exported> write_history(const engine::journal::Reader& from, const core::StreamId& stream,
                                     std::int64_t made_ms, const std::string& path);

/// A file that was read whole. Knows its own stream only; it has no partition's order.
class ArchivedHistory final : public engine::journal::Reader {
 public:
  static base::Result<ArchivedHistory> read(const std::string& path);

  const core::StreamId& stream() const { return stream_; }
  std::int64_t made_ms() const { return made_ms_; }
  /// Of the newest record.
  base::Hash256 leaf() const;

  base::Result<std::uint16_t> partitions() const override { return 0; }
  base::Result<std::string> journal_id() const override { return journal_; }
  base::Result<std::vector<core::OrderedRecord>> read_order(core::PartitionId partition, core::Sequence from,
                                                            std::size_t limit) const override;
  base::Result<std::vector<core::StoredRecord>> read_stream(const core::StreamId& stream,
                                                            std::uint64_t from_seq,
                                                            std::size_t limit) const override;

 private:
  std::string journal_;
  core::StreamId stream_;
  std::int64_t made_ms_ = 0;
  std::vector<core::StoredRecord> records_;
};

}  // namespace sandglass::replay_tools::archive
