// What journals that keep rows (memory, RocksDB) have in common: the rows of a batch, where a partition
// stands, and the reader over a view.
//
// Thread rule: pure functions over the arguments; RowReader as its view's scan_now. Errors: record_damaged,
// format_unknown, folder_version, and those of the view.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/journal/journal.h"
#include "engine/journal/reader.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal {

/// Identity of a set of partitions; written once, when it is made.
struct JournalMeta {
  std::string journal_id;  // random, or a move gave it (move.h); genesis chains commit to it
  std::uint16_t partitions = 8;
  // What the journal was made with; whoever opens it compares. Empty: not known.
  std::string key_check;
  std::string folder_id;
};
std::vector<view::ViewChange> meta_rows(const JournalMeta& meta);
/// not_found: the rows are those of an empty, new store. folder_version: another format.
base::Result<JournalMeta> read_meta(const view::View& view);

/// The rows of the batch: two puts a record, then the view changes. Takes the batch apart.
void take_rows(Batch& batch, std::vector<view::ViewChange>& rows);
/// Bytes of keys and values.
std::size_t row_bytes(const std::vector<view::ViewChange>& rows);

/// Where the partition stands; `epoch` is that of its last owner.
base::Result<Ownership> read_ownership(const view::View& view, const JournalMeta& meta,
                                       core::PartitionId partition);
/// The time of the newest record of any partition; nothing if there is none that can be read.
std::optional<base::WallMs> newest_record_ms(const view::View& view, const JournalMeta& meta);
/// What time a record gets that is written before there is an engine's clock (base/steady_clock.h): `now`, or
/// that of the partition's newest record, where the machine's clock is behind it by less than two days.
base::WallMs time_of_next(const view::View& view, core::PartitionId partition, base::WallMs now_ms);
/// 0: the partition never had an owner.
base::Result<core::OwnerEpoch> read_owner_epoch(const view::View& view, core::PartitionId partition);
view::ViewChange owner_epoch_row(core::PartitionId partition, core::OwnerEpoch epoch);

/// Checks that batches of one partition follow each other without a gap; a broken sequence aborts.
class SequenceGuard {
 public:
  explicit SequenceGuard(const Ownership& ownership)
      : epoch_(ownership.epoch), last_(ownership.last_sequence) {}
  void check(const Batch& batch);
  core::OwnerEpoch epoch() const { return epoch_; }

 private:
  core::OwnerEpoch epoch_;
  core::Sequence last_;
};

/// The Reader port over the rows of a view, which must outlive it.
class RowReader final : public Reader {
 public:
  explicit RowReader(const view::View& view) : view_(view) {}
  base::Result<std::uint16_t> partitions() const override;
  base::Result<std::string> journal_id() const override;
  base::Result<std::vector<core::OrderedRecord>> read_order(core::PartitionId partition, core::Sequence from,
                                                            std::size_t limit) const override;
  base::Result<std::vector<core::StoredRecord>> read_stream(const core::StreamId& stream,
                                                            std::uint64_t from_seq,
                                                            std::size_t limit) const override;

 private:
  const view::View& view_;
};

}  // namespace sandglass::engine::journal
