// A stream folded up to some record: its state, and what the next record must link to. The one place where
// records become state; shards, recovery, debugger, auditor and simulator all go through here.
//
//   stored record ─▶ read_turn: header, events, leaf ─▶ StreamFold::apply: check link ─▶ evolve ─▶ new head
//
// Thread rule: a StreamFold belongs to one thread; state() may be shared read-only with others.
// Errors: stream_damaged for bytes that fail a check (the stream is parked alone, E14); event_unknown and
// format_unknown for what is newer than this program (the shard stops, J4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/codec/header.h"
#include "engine/core/decider.h"
#include "engine/core/ports/activator.h"
#include "engine/core/stored_record.h"
#include "engine/fold/stream_kind.h"

namespace sandglass::engine::fold {

/// A stored record, decoded.
struct ReadTurn {
  codec::TurnHeader header;
  std::shared_ptr<core::EventBatch> events;
  std::vector<core::SlotPtr> slots;
  base::Hash256 leaf;

  core::TurnView view() const { return {header.info(), events, slots}; }
};

base::Result<ReadTurn> read_turn(const AnyKind& kind, const core::StoredRecord& record);

/// Facts of a stream after its newest record, from its records alone.
struct StreamHead {
  std::uint64_t seq = 0;  // 0: no record yet
  base::Hash256 leaf;
  std::uint64_t turn_first = 0;  // first record of the newest turn (J2, J12)
  std::uint64_t events_since_snapshot = 0;
  bool in_flight = false;   // has an in-flight row
  bool unanswered = false;  // the newest record's turn goes on, if ownership lasts

  friend bool operator==(const StreamHead&, const StreamHead&) = default;
};

class StreamFold {
 public:
  StreamFold(const AnyKind& kind, core::StreamId stream);
  /// Goes on from a state snapshot.
  StreamFold(const AnyKind& kind, core::StreamId stream, StreamHead head,
             std::shared_ptr<core::StreamState> state);

  const AnyKind& kind() const { return *kind_; }
  const core::StreamId& stream() const { return stream_; }
  const StreamHead& head() const { return head_; }
  /// Whoever keeps this sees it unchanged: evolve() copies a state that is shared.
  const std::shared_ptr<core::StreamState>& state() const { return state_; }

  /// Reading: checks that the record follows the head, and folds it.
  base::Status apply(const ReadTurn& turn);

  /// Writing: state of a record in the making, before close() links it.
  void evolve(const core::EventBatch& events, const core::TurnInfo& info);
  void close(const codec::TurnHeader& header, const base::Hash256& leaf);

  /// After close() or apply(): a snapshot row belongs to this record. A function of records alone.
  bool snapshot_due() const { return snapshot_due_; }
  /// The caller has written one, or knows that one is written.
  void snapshot_made();

 private:
  const AnyKind* kind_;
  core::StreamId stream_;
  StreamHead head_;
  std::shared_ptr<core::StreamState> state_;
  bool snapshot_due_ = false;
};

}  // namespace sandglass::engine::fold
