// Record bytes: how a StoredRecord and its order link lie in rows, and what is hashed (J22).
//
//   record row   format(varint) · header length(varint) · header · slot count(varint) · per slot:
//   length(varint) ·
//                encoding(1) · bytes · CRC-32C(4) of all before. A slot's length counts its encoding byte; a
//                redacted slot is not written yet. The checksum ends the row in every format, newer ones
//                included: it tells damage from what is newer than this program (J4).
//   order row    stream(17) · stream seq(varint) · epoch(varint) · leaf(32) · chain(32)
//
// Stream and seq of a record are in its key and again in its header. Stored bytes are never re-encoded.
// Thread rule: pure functions. Errors: record_damaged, format_unknown (J4: whole, and newer than this
// program).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::codec {

std::string encode_record(const core::StoredRecord& record);
/// `stream` and `seq` are those of the key.
base::Result<core::StoredRecord> decode_record(const core::StreamId& stream, std::uint64_t seq,
                                               std::string_view row);
/// Length of encode_record's answer, without making it (J2's limit).
std::size_t encoded_size(std::size_t header_bytes, const std::vector<core::SlotPtr>& slots);

std::string encode_order(const core::OrderLink& link);
base::Result<core::OrderLink> decode_order(core::Sequence sequence, std::string_view row);

/// SHA-256(tag ‖ format ‖ header length ‖ header ‖ slot count ‖ SHA-256(encoding ‖ bytes) of each slot).
base::Hash256 leaf_hash(const core::StoredRecord& record);
/// SHA-256(tag ‖ previous chain ‖ partition ‖ sequence ‖ epoch ‖ leaf).
base::Hash256 chain_hash(const base::Hash256& previous, core::PartitionId partition, core::Sequence sequence,
                         core::OwnerEpoch epoch, const base::Hash256& leaf);
/// The chain before the first record: commits to journal and partition.
base::Hash256 genesis_chain(std::string_view journal_id, core::PartitionId partition);

// Varints (LEB128), for other rows as well.
void put_varint(std::string& out, std::uint64_t value);
/// Takes one from the front of `rest`; nullopt: cut short or over 64 bits, `rest` is then unspecified.
std::optional<std::uint64_t> take_varint(std::string_view& rest);

}  // namespace sandglass::engine::codec
