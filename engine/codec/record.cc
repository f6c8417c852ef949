#include "engine/codec/record.h"

#include <bit>
#include <optional>

#include "engine/base/check.h"
#include "engine/base/crc32c.h"

namespace sandglass::engine::codec {
namespace {

constexpr std::size_t kSumBytes = 4;

std::string sum_of(std::string_view row) {
  const std::uint32_t crc = base::crc32c(row);
  std::string sum;
  for (int shift = 24; shift >= 0; shift -= 8) sum.push_back(static_cast<char>(crc >> shift & 0xFF));
  return sum;
}

std::size_t varint_size(std::uint64_t value) {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

std::unexpected<base::Error> damaged(const core::StreamId& stream, std::uint64_t seq, std::string_view what) {
  return base::fail(
      base::Code::record_damaged,
      "record " + std::to_string(seq) + " of " + stream.text() + " is damaged: " + std::string(what) +
          "; restore the data folder from a backup; `sandglass audit verify` lists what else is damaged");
}

/// A length-prefixed piece from the front of `rest`.
std::optional<std::string_view> take_piece(std::string_view& rest) {
  const auto length = take_varint(rest);
  if (!length || *length > rest.size()) return std::nullopt;
  const std::string_view piece = rest.substr(0, *length);
  rest.remove_prefix(*length);
  return piece;
}

base::Hash256 take_hash(std::string_view& rest) {
  const auto hash = base::Hash256::from_bytes(rest.substr(0, 32));
  rest.remove_prefix(32);
  return *hash;
}

}  // namespace

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::optional<std::uint64_t> take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80)
      return byte == 0 && shift > 0 ? std::nullopt : std::optional(value);  // one encoding per number
  }
  return std::nullopt;
}

std::size_t encoded_size(std::size_t header_bytes, const std::vector<core::SlotPtr>& slots) {
  std::size_t size = varint_size(core::kRecordFormat) + varint_size(header_bytes) + header_bytes + kSumBytes;
  size += varint_size(slots.size());
  for (const core::SlotPtr& slot : slots)
    size += varint_size(slot->bytes.size() + 1) + 1 + slot->bytes.size();
  return size;
}

std::string encode_record(const core::StoredRecord& record) {
  std::string row;
  row.reserve(encoded_size(record.header.size(), record.slots) + 4);
  put_varint(row, record.format);
  put_varint(row, record.header.size());
  row += record.header;
  put_varint(row, record.slots.size());
  for (const core::SlotPtr& slot : record.slots) {
    put_varint(row, slot->bytes.size() + 1);
    row.push_back(static_cast<char>(slot->encoding));
    row += slot->bytes;
  }
  row += sum_of(row);
  return row;
}

base::Result<core::StoredRecord> decode_record(const core::StreamId& stream, std::uint64_t seq,
                                               std::string_view row) {
  core::StoredRecord record{.format = 0, .stream = stream, .seq = seq};
  if (row.size() < kSumBytes ||
      sum_of(row.substr(0, row.size() - kSumBytes)) != row.substr(row.size() - kSumBytes))
    return damaged(stream, seq, "its checksum does not match");
  row.remove_suffix(kSumBytes);
  const auto format = take_varint(row);
  if (!format || *format == 0) return damaged(stream, seq, "its format number is unreadable");
  if (*format > core::kRecordFormat) {
    return base::fail(base::Code::format_unknown,
                      "record " + std::to_string(seq) + " of " + stream.text() + " has format " +
                          std::to_string(*format) + "; this program reads up to " +
                          std::to_string(core::kRecordFormat) + ": use the newer program that wrote it");
  }
  record.format = static_cast<std::uint32_t>(*format);
  const auto header = take_piece(row);
  if (!header) return damaged(stream, seq, "its header is cut short");
  record.header = *header;
  const auto count = take_varint(row);
  if (!count || *count > row.size()) return damaged(stream, seq, "its slots are cut short");
  record.slots.reserve(*count);
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto piece = take_piece(row);
    if (!piece || piece->empty()) return damaged(stream, seq, "slot " + std::to_string(i) + " is cut short");
    record.slots.push_back(std::make_shared<const core::Slot>(
        core::Slot{static_cast<core::Encoding>(piece->front()), std::string(piece->substr(1))}));
  }
  if (!row.empty()) return damaged(stream, seq, "bytes follow its end");
  return record;
}

std::string encode_order(const core::OrderLink& link) {
  std::string row;
  row.reserve(core::StreamId::kBytes + 20 + 64);
  row.push_back(static_cast<char>(link.stream.kind));
  row.append(reinterpret_cast<const char*>(link.stream.id.data()), link.stream.id.size());
  put_varint(row, link.stream_seq);
  put_varint(row, link.epoch);
  row += link.leaf.view();
  row += link.chain.view();
  return row;
}

base::Result<core::OrderLink> decode_order(core::Sequence sequence, std::string_view row) {
  const auto bad = [&] {
    return base::fail(base::Code::record_damaged, "order row " + std::to_string(sequence) +
                                                      " is damaged; restore the data folder from a backup");
  };
  core::OrderLink link{.sequence = sequence};
  const auto stream = core::StreamId::from_bytes(row.substr(0, core::StreamId::kBytes));
  if (!stream) return bad();
  link.stream = *stream;
  row.remove_prefix(core::StreamId::kBytes);
  const auto seq = take_varint(row);
  if (!seq) return bad();
  const auto epoch = take_varint(row);
  if (!epoch || row.size() != 64) return bad();
  link.stream_seq = *seq;
  link.epoch = *epoch;
  link.leaf = take_hash(row);
  link.chain = take_hash(row);
  return link;
}

base::Hash256 leaf_hash(const core::StoredRecord& record) {
  // Made once: that costs as much as to hash the header of a step.
  static thread_local base::Sha256 hash;
  static thread_local base::Sha256 slot_hash;
  hash.update("sandglass leaf 1")
      .update_u64(record.format)
      .update_u64(record.header.size())
      .update(record.header);
  hash.update_u64(record.slots.size());
  for (const core::SlotPtr& slot : record.slots) {
    const char encoding = static_cast<char>(slot->encoding);
    slot_hash.update({&encoding, 1}).update(slot->bytes);
    hash.update(slot_hash.finish().view());
  }
  return hash.finish();
}

base::Hash256 chain_hash(const base::Hash256& previous, core::PartitionId partition, core::Sequence sequence,
                         core::OwnerEpoch epoch, const base::Hash256& leaf) {
  static thread_local base::Sha256 hash;
  hash.update("sandglass chain 1").update(previous.view()).update_u64(partition).update_u64(sequence);
  return hash.update_u64(epoch).update(leaf.view()).finish();
}

base::Hash256 genesis_chain(std::string_view journal_id, core::PartitionId partition) {
  base::Sha256 hash;
  hash.update("sandglass genesis 1").update_u64(journal_id.size()).update(journal_id).update_u64(partition);
  return hash.finish();
}

}  // namespace sandglass::engine::codec
