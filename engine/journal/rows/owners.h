// The stream of a partition's owners. Its records have no events: on Kafka each begins an owner's epoch, and
// in every journal they tell of moves to another one (move.h). Their only slot, if there is one, is a text:
//
//   sandglass owner 1     who begins the epoch, as far as all owners of a topic must be alike
//   key CHECK             of its tenant key (J23)
//   blobs ID              of its blob store (J29)
//   skipped OFFSET HASH   a message of the topic that it passed over, as its operator wanted (kafka/skip.h)
//
// Thread rule: pure functions. Errors: record_damaged, format_unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::journal {

core::StreamId owners_stream(core::PartitionId partition, std::uint16_t partitions);

struct SkippedMessage {
  std::int64_t offset = -1;
  base::Hash256 hash;
  friend bool operator==(const SkippedMessage&, const SkippedMessage&) = default;
};
struct OwnerMark {
  std::string key;  // empty: it does not say who it is
  std::string blobs;
  std::vector<SkippedMessage> skipped;
  friend bool operator==(const OwnerMark&, const OwnerMark&) = default;
};
/// Empty for one that says nothing.
std::string encode_owner(const OwnerMark& mark);
/// What such a record says; nothing: it does not, or tells of a move.
base::Result<std::optional<OwnerMark>> owner_of(const core::StoredRecord& record);

/// The stored record that begins an epoch; `last` is the stream's newest one, if there is any. `text`: its
/// slot, of a move or a mark; empty: it has none.
core::StoredRecord make_epoch_record(const core::StreamId& owners, const core::StoredRecord* last,
                                     core::OwnerEpoch epoch, std::int64_t time_ms,
                                     std::string_view text = {});

}  // namespace sandglass::engine::journal
