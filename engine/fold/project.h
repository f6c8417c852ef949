// Rows that a record causes in the view. Functions of records alone, so that a deleted view is made anew from
// the journal without applying anything twice (J1). The framework's tables come from the header's generic
// fields:
//
//   timers started, ended          due rows          put, delete
//   messages                       undelivered rows  put; deleted by the record that consumes (same
//   partition)
//                                                    or by the partition's own stream (other partition, J18)
//   consumed message               inbox row         the source's high-water; dropped after its closing
//   message closing one, other partition   closing row       put; deleted with the inbox row request id
//   request row       where the answer is in flight                      in-flight row     put on entering,
//   delete on leaving every 64 events, at parking    snapshot row
//
// The stream kind adds its own (visibility …). A step in the middle of a run causes none of them (J9).
// Thread rule: pure functions. Errors: record_damaged when a row is not as it must be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/codec/header.h"
#include "engine/fold/stream_fold.h"
#include "engine/fold/stream_kind.h"
#include "engine/view/keys.h"

namespace sandglass::engine::fold {

inline core::PartitionId partition_of(const core::StreamId& stream, std::uint16_t partitions) {
  return view::partition_of(stream.bucket(), partitions);
}

/// Value of a request row: which record answered, and what the request was.
struct RequestRow {
  std::uint64_t seq = 0;
  base::Hash256 digest;
};
std::string encode_request_row(const RequestRow& row);
base::Result<RequestRow> decode_request_row(std::string_view value);

/// Value of an inbox row: the newest message of one source that was consumed.
struct InboxRow {
  std::uint64_t source_seq = 0;
  std::uint32_t index = 0;
  friend auto operator<=>(const InboxRow&, const InboxRow&) = default;
};
std::string encode_inbox_row(const InboxRow& row);
base::Result<InboxRow> decode_inbox_row(std::string_view value);

/// The framework's rows of one record.
void project_header(const codec::TurnHeader& header, std::uint16_t partitions, ViewChanges& changes);

/// Rows of what stands in the slots of a record, or of a part of one that was decided; after evolving it.
void project_content(const StreamFold& fold, const core::EventBatch& events,
                     const std::vector<core::SlotPtr>& slots, std::uint16_t partitions, ViewChanges& changes);

/// All other rows of one record that was just closed or applied: the framework's, the kind's and the
/// snapshot. `before` is the state before the record; null if none of its events changes the kind's own
/// tables.
void project_record(StreamFold& fold, const core::StreamState* before, const codec::TurnHeader& header,
                    std::uint16_t partitions, ViewChanges& changes);

/// Puts a stored record onto its stream and gives all its rows. An error: it does not fit, and there are
/// none.
base::Status apply_and_project(StreamFold& fold, const ReadTurn& turn, std::uint16_t partitions,
                               ViewChanges& changes);

}  // namespace sandglass::engine::fold
