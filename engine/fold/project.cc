#include "engine/fold/project.h"

#include <limits>
#include <optional>
#include <utility>

#include "engine/codec/record.h"
#include "engine/fold/snapshot.h"

namespace sandglass::engine::fold {
namespace {

constexpr std::size_t kHashBytes = 32;

void project_consumed(const codec::TurnHeader& header, core::PartitionId partition, std::uint16_t partitions,
                      ViewChanges& changes) {
  const codec::ConsumedMessage& consumed = *header.consumed;
  const bool same_partition = partition_of(consumed.source, partitions) == partition;
  const std::string inbox = view::inbox_key(header.stream, consumed.source);
  // After a closing message that cannot come twice, nothing of that source can come at all. From another
  // partition it can, until that one has heard that it arrived.
  if (consumed.closing && same_partition) {
    changes.push_back({inbox, std::nullopt});
  } else {
    changes.push_back({inbox, encode_inbox_row({consumed.source_seq, consumed.index})});
  }
  if (consumed.closing && !same_partition) {
    changes.push_back({view::closing_key(partition, header.stream, consumed.source),
                       encode_inbox_row({consumed.source_seq, consumed.index})});
  }
  if (same_partition) {
    changes.push_back({view::undelivered_key(partition, consumed.source, consumed.source_seq, consumed.index),
                       std::nullopt});
  }
}

}  // namespace

std::string encode_request_row(const RequestRow& row) {
  std::string value;
  codec::put_varint(value, row.seq);
  value += row.digest.view();
  return value;
}

base::Result<RequestRow> decode_request_row(std::string_view value) {
  const auto seq = codec::take_varint(value);
  const auto digest = value.size() == kHashBytes ? base::Hash256::from_bytes(value) : std::nullopt;
  if (!seq || !digest) return base::fail(base::Code::record_damaged, "a request row is damaged");
  return RequestRow{*seq, *digest};
}

std::string encode_inbox_row(const InboxRow& row) {
  std::string value;
  codec::put_varint(value, row.source_seq);
  codec::put_varint(value, row.index);
  return value;
}

base::Result<InboxRow> decode_inbox_row(std::string_view value) {
  const auto source_seq = codec::take_varint(value);
  const auto index = codec::take_varint(value);
  if (!source_seq || !index || *index > std::numeric_limits<std::uint32_t>::max() || !value.empty()) {
    return base::fail(base::Code::record_damaged, "an inbox row is damaged");
  }
  return InboxRow{*source_seq, static_cast<std::uint32_t>(*index)};
}

void project_header(const codec::TurnHeader& header, std::uint16_t partitions, ViewChanges& changes) {
  const core::PartitionId partition = partition_of(header.stream, partitions);
  for (const auto& timer : header.timers_ended) {
    changes.push_back({view::due_key(partition, timer.due_ms, header.stream, timer.key), std::nullopt});
  }
  for (const auto& timer : header.timers_started) {
    changes.push_back({view::due_key(partition, timer.due_ms, header.stream, timer.key), std::string()});
  }
  for (std::uint32_t index = 0; index < header.messages.size(); ++index) {
    changes.push_back({view::undelivered_key(partition, header.stream, header.seq, index),
                       header.messages[index].target.bytes()});
  }
  if (header.consumed) project_consumed(header, partition, partitions, changes);
  if (!header.request_id.empty()) {
    changes.push_back({view::request_key(header.stream, header.request_id),
                       encode_request_row({header.seq, header.request_digest})});
  }
  if (header.in_flight == codec::InFlightChange::entered) {
    changes.push_back({view::in_flight_key(partition, header.stream), std::string()});
  } else if (header.in_flight == codec::InFlightChange::left) {
    changes.push_back({view::in_flight_key(partition, header.stream), std::nullopt});
  }
}

void project_content(const StreamFold& fold, const core::EventBatch& events,
                     const std::vector<core::SlotPtr>& slots, std::uint16_t partitions,
                     ViewChanges& changes) {
  fold.kind().project_content(events, slots, *fold.state(), fold.stream(),
                              partition_of(fold.stream(), partitions), changes);
}

void project_record(StreamFold& fold, const core::StreamState* before, const codec::TurnHeader& header,
                    std::uint16_t partitions, ViewChanges& changes) {
  project_header(header, partitions, changes);
  if (before != nullptr) {
    fold.kind().project(*before, *fold.state(), fold.stream(), partition_of(fold.stream(), partitions),
                        changes);
  }
  if (fold.snapshot_due()) {
    changes.push_back({view::snapshot_key(fold.stream()), encode_snapshot(fold)});
    fold.snapshot_made();
  }
}

base::Status apply_and_project(StreamFold& fold, const ReadTurn& turn, std::uint16_t partitions,
                               ViewChanges& changes) {
  // A state that is held here is not changed in place.
  const auto before = fold.kind().projects(*turn.events) ? fold.state() : nullptr;
  if (auto status = fold.apply(turn); !status) return status;
  project_content(fold, *turn.events, turn.slots, partitions, changes);
  project_record(fold, before.get(), turn.header, partitions, changes);
  return {};
}

}  // namespace sandglass::engine::fold
