#include "engine/journal/rows/owners.h"

#include <memory>
#include <string>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/view/keys.h"

namespace sandglass::engine::journal {

core::StreamId owners_stream(core::PartitionId partition, std::uint16_t partitions) {
  for (std::uint32_t tries = 0;; ++tries) {
    const auto stream = core::StreamId::named(
        core::StreamKind::partition, "owners/" + std::to_string(partition) + "/" + std::to_string(tries));
    if (view::partition_of(stream.bucket(), partitions) == partition) return stream;
  }
}

core::StoredRecord make_epoch_record(const core::StreamId& owners, const core::StoredRecord* last,
                                     core::OwnerEpoch epoch, std::int64_t time_ms, std::string_view move) {
  codec::TurnHeader header{.stream = owners, .seq = 1, .time_ms = time_ms, .epoch = epoch};
  if (last != nullptr) {
    header.seq = last->seq + 1;
    header.previous = codec::leaf_hash(*last);
  }
  core::StoredRecord record{.stream = owners, .seq = header.seq, .header = codec::encode_header(header)};
  if (!move.empty()) {
    record.slots.push_back(
        std::make_shared<const core::Slot>(core::Slot{core::Encoding::bytes, std::string(move)}));
  }
  return record;
}

}  // namespace sandglass::engine::journal
