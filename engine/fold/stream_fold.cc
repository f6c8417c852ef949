#include "engine/fold/stream_fold.h"

#include <string>
#include <utility>

#include "engine/codec/record.h"
#include "engine/fold/snapshot.h"

namespace sandglass::engine::fold {
namespace {

using base::Code;

/// What is newer than we are keeps its code; everything else is damage of this stream.
base::Error as_stream_error(const core::StreamId& stream, std::uint64_t seq, const base::Error& error) {
  const bool newer = error.code == Code::event_unknown || error.code == Code::format_unknown;
  return {newer ? error.code : Code::stream_damaged,
          stream.text() + " record " + std::to_string(seq) + ": " + error.message};
}

}  // namespace

base::Result<ReadTurn> read_turn(const AnyKind& kind, const core::StoredRecord& record) {
  auto header = codec::decode_header(record);
  if (!header) return std::unexpected(as_stream_error(record.stream, record.seq, header.error()));
  auto events = kind.decode(header->events);
  if (!events) return std::unexpected(as_stream_error(record.stream, record.seq, events.error()));
  return ReadTurn{std::move(*header), std::move(*events), record.slots, codec::leaf_hash(record)};
}

StreamFold::StreamFold(const AnyKind& kind, core::StreamId stream)
    : kind_(&kind), stream_(stream), state_(kind.initial()) {}

StreamFold::StreamFold(const AnyKind& kind, core::StreamId stream, StreamHead head,
                       std::shared_ptr<core::StreamState> state)
    : kind_(&kind), stream_(stream), head_(head), state_(std::move(state)) {}

base::Status StreamFold::apply(const ReadTurn& turn) {
  const auto damaged = [&](std::string what) {
    return base::fail(Code::stream_damaged,
                      stream_.text() + " record " + std::to_string(turn.header.seq) + ": " + what);
  };
  if (turn.header.stream != stream_) return damaged("belongs to " + turn.header.stream.text());
  if (turn.header.seq != head_.seq + 1) return damaged("follows record " + std::to_string(head_.seq));
  if (turn.header.previous != head_.leaf) return damaged("its link does not match the record before it");
  evolve(*turn.events, turn.header.info());
  close(turn.header, turn.leaf);
  return {};
}

void StreamFold::evolve(const core::EventBatch& events, const core::TurnInfo& info) {
  if (state_.use_count() > 1) state_ = kind_->copy(*state_);
  kind_->evolve(*state_, events, 0, info);
}

void StreamFold::close(const codec::TurnHeader& header, const base::Hash256& leaf) {
  head_.seq = header.seq;
  head_.leaf = leaf;
  head_.turn_first = header.continues != 0 ? header.continues : header.seq;
  head_.events_since_snapshot += header.events.size();
  head_.unanswered = header.unanswered;
  if (header.in_flight != codec::InFlightChange::unchanged) {
    head_.in_flight = header.in_flight == codec::InFlightChange::entered;
  }
  snapshot_due_ = head_.events_since_snapshot >= kSnapshotEvents ||
                  (header.in_flight == codec::InFlightChange::left && head_.events_since_snapshot > 0);
  if (snapshot_due_) head_.events_since_snapshot = 0;
}

void StreamFold::snapshot_made() {
  snapshot_due_ = false;
}

}  // namespace sandglass::engine::fold
