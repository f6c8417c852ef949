#include "replay-tools/audit/stream_chains.h"

#include "engine/codec/header.h"

namespace sandglass::replay_tools::audit {

std::string StreamChains::check(const engine::core::StoredRecord& record, const engine::base::Hash256& leaf) {
  const auto header = engine::codec::decode_header(record);
  Last& last = last_[record.stream];
  const Last before = last;
  last = {.seq = record.seq, .leaf = leaf};
  if (!header) return header.error().message;
  if (record.seq != before.seq + 1) {
    return "record " + std::to_string(record.seq) + " of its stream comes after record " +
           std::to_string(before.seq) + ": a record was dropped, inserted or moved";
  }
  if (header->previous != before.leaf) {
    return "its link does not match the stream's previous record: one of the two was changed";
  }
  return {};
}

}  // namespace sandglass::replay_tools::audit
