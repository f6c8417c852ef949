// A partition's view in this mode: the rows that its records cause, and where on the topic the newest of them
// lies, in the same write (J7). The view keeps no log of its own: a crash loses the newest writes, never a
// part of one, and the topic has them; whoever opens it goes on from its own position.
//
//   applied row   offset of the newest applied record · newest sequence known as published · offset where a
//                 reading of what is published may begin (varints, offsets + 1)
//
// Thread rule: belongs to one thread. Errors: those of the store; record_damaged for rows that are not as
// they must be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/wire.h"
#include "engine/journal/rows/move.h"
#include "engine/journal/rows/owners.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal::kafka {

/// A view, and the one way to change it: all rows of the groups in one atomic write.
struct ViewStore {
  const view::View& view;  // scan_now only
  std::function<base::Status(std::span<const std::vector<view::ViewChange>>)> write;
};

/// The rows that a record causes besides its own (engine/fold); called once for each record, in order.
using Projection = std::function<base::Status(core::PartitionId, const core::OrderedRecord&,
                                              std::vector<view::ViewChange>&)>;

struct Position {
  std::int64_t offset = -1;          // of the newest applied record; -1: none
  core::Sequence published = 0;      // everything up to here is in committed transactions
  std::int64_t published_from = -1;  // some published record probably lies behind it; -1: not known

  friend bool operator==(const Position&, const Position&) = default;
};
std::string encode_position(const Position& position);
base::Result<Position> decode_position(core::PartitionId partition, std::string_view row);

class AppliedView {
 public:
  static base::Result<AppliedView> open(ViewStore store, const JournalMeta& meta,
                                        core::PartitionId partition);

  core::PartitionId partition() const { return partition_; }
  const std::string& journal() const { return meta_.journal_id; }
  core::StreamId owners() const { return owners_; }
  /// As opened; the rule that goes on from it knows better later.
  const AppliedHead& opened_at() const { return opened_at_; }
  const Position& position() const { return position_; }

  /// The chain hash of an applied sequence; of what is added, too.
  std::optional<base::Hash256> hash_of(core::Sequence sequence) const;
  /// Messages of applied, written records from a sequence on, as they were first produced.
  base::Result<std::vector<std::pair<core::Sequence, Message>>> messages(core::Sequence from,
                                                                         std::size_t limit) const;
  /// What the written records of its owners say.
  base::Result<Moves> moves() const { return read_moves(store_.view, meta_, partition_); }
  /// The data folder that it is of.
  const std::string& folder() const { return meta_.folder_id; }
  /// For a record that nobody's clock is there for (rows.h); what is added must be written.
  base::WallMs time_of_next(base::WallMs now_ms) const {
    return journal::time_of_next(store_.view, partition_, now_ms);
  }

  /// The record at `offset`, with what it causes. Written by flush(). `row`: its stored bytes.
  void add(const core::OrderedRecord& record, std::string row, std::vector<view::ViewChange> changes,
           std::int64_t offset);
  /// Rows that no record of their own causes.
  void add_rows(std::vector<view::ViewChange> changes);
  /// Another message has the newest applied record: it was published again.
  void moved(std::int64_t offset);
  /// Everything up to the sequence is published, and so is the message at `offset` that has it.
  void published(core::Sequence sequence, std::int64_t offset);
  void may_read_published_from(std::int64_t offset);
  std::size_t pending_bytes() const { return pending_bytes_; }
  std::size_t pending_records() const { return pending_chains_.size(); }
  base::Status flush();

 private:
  AppliedView(ViewStore store, JournalMeta meta, core::PartitionId partition)
      : store_(std::move(store)),
        meta_(std::move(meta)),
        partition_(partition),
        owners_(owners_stream(partition, meta_.partitions)) {}
  base::Result<std::optional<std::string>> row(const std::string& key) const;
  base::Result<core::OwnerEpoch> epoch_of(core::Sequence sequence) const;

  ViewStore store_;
  JournalMeta meta_;
  core::PartitionId partition_;
  core::StreamId owners_;
  AppliedHead opened_at_;
  Position position_;
  Position written_position_;

  std::vector<view::ViewChange> pending_;
  std::vector<view::ViewChange> pending_order_;  // rows of the order, by sequence
  core::Sequence first_pending_ = 0;             // the sequence of the first of them
  std::vector<base::Hash256> pending_chains_;    // of each of them
  core::OwnerEpoch epoch_ = 0;                   // of the newest record
  core::OwnerEpoch pending_epoch_ = 0;           // 0: unchanged
  std::size_t pending_bytes_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
