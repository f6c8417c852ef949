// The way out: a decided turn becomes a record. A record is made of one or more parts (the command's
// decision, then the output of the activation that it caused, J12); their events, slots and messages are
// numbered through.
//
//   Turn ─▶ encode_part ─▶ fits()? ─▶ add ─▶ … ─▶ finish: header bytes, leaf
//
// Thread rule: belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/codec/header.h"
#include "engine/core/decider.h"
#include "engine/core/stored_record.h"
#include "engine/fold/stream_kind.h"

namespace sandglass::engine::fold {

/// One decision's share of a record, encoded.
struct RecordPart {
  std::vector<codec::EncodedEvent> events;
  std::vector<codec::OutMessage> messages;
  std::vector<core::SlotPtr> slots;
  std::vector<codec::HeaderTimer> timers_started;
  std::vector<codec::HeaderTimer> timers_ended;
  std::optional<std::uint32_t> reply_slot;
  core::ContentDigest reply_digest;
  std::size_t bytes = 0;  // upper bound of what it adds to the stored record

  /// Nothing that a record would be made for.
  bool empty() const {
    return events.empty() && messages.empty() && timers_started.empty() && timers_ended.empty();
  }
};

/// `turn.first_slot` must be the number of slots that the record has already.
RecordPart encode_part(const AnyKind& kind, const core::Turn& turn);

struct MadeRecord {
  core::StoredRecord record;
  codec::TurnHeader header;
  base::Hash256 leaf;
};

class RecordMaker {
 public:
  /// `header` brings what the record has beside its parts: stream, seq, previous leaf, time, epoch, request,
  /// …
  explicit RecordMaker(codec::TurnHeader header);

  const codec::TurnHeader& header() const { return header_; }
  const std::vector<core::SlotPtr>& slots() const { return slots_; }
  bool empty() const { return empty_; }

  /// Whether the record stays within kMaxRecordBytes with `part` (J2).
  bool fits(const RecordPart& part) const { return bytes_ + part.bytes <= core::kMaxRecordBytes; }
  void add(RecordPart part);

  /// Ends the making.
  MadeRecord finish(codec::InFlightChange in_flight, bool unanswered);

 private:
  codec::TurnHeader header_;
  std::vector<core::SlotPtr> slots_;
  std::size_t bytes_;
  bool empty_ = true;
};

}  // namespace sandglass::engine::fold
