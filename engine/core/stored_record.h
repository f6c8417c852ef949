// A record as it lies in a journal: exact bytes, never re-encoded. What the bytes mean is engine/codec's
// matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

/// Records, all parts together, are at most this long; checked before deciding (J2).
inline constexpr std::size_t kMaxRecordBytes = 512 * 1024;
/// The record format that this program writes, and the newest that it reads.
inline constexpr std::uint32_t kRecordFormat = 1;

using PartitionId = std::uint16_t;
/// Grows by one with every owner of a partition; 0 is never used.
using OwnerEpoch = std::uint64_t;
/// Position in a partition's order; the first record has 1.
using Sequence = std::uint64_t;

/// Leaf = SHA-256(format ‖ header bytes ‖ SHA-256 of each slot's stored bytes) (J22). The header holds the
/// leaf of the stream's previous record, so that leaves chain a stream by themselves.
struct StoredRecord {
  std::uint32_t format = kRecordFormat;
  StreamId stream;
  std::uint64_t seq = 0;  // position in the stream, from 1
  std::string header;     // exact bytes of sandglass.record.v1.TurnHeader
  std::vector<SlotPtr> slots;
};

/// The shard's link for one record: order row `sequence`. chain = SHA-256(tag ‖ previous chain ‖ partition ‖
/// sequence ‖ epoch ‖ leaf); the genesis chain commits to the journal id and the partition.
struct OrderLink {
  Sequence sequence = 0;
  OwnerEpoch epoch = 0;
  StreamId stream;
  std::uint64_t stream_seq = 0;
  base::Hash256 leaf;
  base::Hash256 chain;
};

/// A record with its place in the partition's order: what is submitted to a journal and read back from it.
struct OrderedRecord {
  OrderLink link;
  StoredRecord record;
};

}  // namespace sandglass::engine::core
