// The stream kind of a partition itself, and its one stream in each partition.
#pragma once

#include <string>

#include "engine/delivery/codec/delivery_codec.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/view/delivery_view.h"
#include "engine/fold/project.h"
#include "engine/fold/stream_kind.h"

namespace sandglass::engine::shard {

using PartitionKind = fold::Kind<core::StreamKind::partition, false, delivery::DeliveryDecider,
                                 delivery::DeliveryCodec, delivery::DeliveryView>;

/// Its id is the first of a sequence of names that hashes into the partition.
inline core::StreamId partition_stream(core::PartitionId partition, std::uint16_t partitions) {
  for (std::uint32_t tries = 0;; ++tries) {
    const auto stream = core::StreamId::named(core::StreamKind::partition,
                                              std::to_string(partition) + "/" + std::to_string(tries));
    if (fold::partition_of(stream, partitions) == partition) return stream;
  }
}

}  // namespace sandglass::engine::shard
