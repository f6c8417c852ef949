// The stream of a partition's owners. Its records have no events: on Kafka each begins an owner's epoch, and
// in every journal they tell of moves to another one (move.h).
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/core/stored_record.h"

namespace sandglass::engine::journal {

core::StreamId owners_stream(core::PartitionId partition, std::uint16_t partitions);

/// The stored record that begins an epoch; `last` is the stream's newest one, if there is any. `move`: what
/// it tells of a move; empty: of none.
core::StoredRecord make_epoch_record(const core::StreamId& owners, const core::StoredRecord* last,
                                     core::OwnerEpoch epoch, std::int64_t time_ms,
                                     std::string_view move = {});

}  // namespace sandglass::engine::journal
