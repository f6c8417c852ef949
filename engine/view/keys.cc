#include "engine/view/keys.h"

#include "engine/base/check.h"

namespace sandglass::engine::view {
namespace {

constexpr std::uint16_t kIndexFamily = 0xFFFE;
constexpr std::uint16_t kPartitionFamily = 0xFFFF;
constexpr std::uint16_t kGlobal = 0xFFFF;
constexpr std::size_t kStreamPrefix = 2 + StreamKey::kBytes;
constexpr std::size_t kIndexPrefix = 2 + 2 + 1 + 8 + StreamKey::kBytes;

template <class Int>
void put(std::string& out, Int value) {
  std::array<char, sizeof(Int)> raw;
  for (char& byte : raw) {
    byte = static_cast<char>(value >> (sizeof value - 1) * 8 & 0xFF);
    value = static_cast<Int>(std::uint64_t{value} << 8);
  }
  out.append(raw.data(), raw.size());
}

template <class Int>
Int get(std::string_view raw) {
  SG_CHECK(raw.size() >= sizeof(Int), "a fixed-width number is cut short");
  Int value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Int>(value << 8 | static_cast<std::uint8_t>(raw[i]));
  }
  return value;
}

std::string stream_prefix(const StreamKey& stream, std::size_t room) {
  SG_CHECK(stream.bytes.size() == StreamKey::kBytes && stream.bucket < kStreamBuckets, "not a stream");
  std::string key;
  key.reserve(kStreamPrefix + 1 + room);
  put(key, stream.bucket);
  key += stream.bytes;
  return key;
}

std::string stream_row(const StreamKey& stream, StreamRow kind, std::size_t room = 8) {
  std::string key = stream_prefix(stream, room);
  key.push_back(static_cast<char>(kind));
  return key;
}

std::string index_prefix(std::uint16_t partition, Index index) {
  std::string key;
  key.reserve(kIndexPrefix + 12);
  put(key, kIndexFamily);
  put(key, partition);
  key.push_back(static_cast<char>(index));
  return key;
}

std::string partition_row(std::uint16_t partition, std::uint8_t kind) {
  std::string key;
  put(key, kPartitionFamily);
  put(key, partition);
  key.push_back(static_cast<char>(kind));
  return key;
}

std::string partition_row(std::uint16_t partition, PartitionRow kind) {
  return partition_row(partition, static_cast<std::uint8_t>(kind));
}

}  // namespace

void put_u16(std::string& out, std::uint16_t value) {
  put(out, value);
}
void put_u32(std::string& out, std::uint32_t value) {
  put(out, value);
}
void put_u64(std::string& out, std::uint64_t value) {
  put(out, value);
}
std::uint16_t get_u16(std::string_view raw) {
  return get<std::uint16_t>(raw);
}
std::uint32_t get_u32(std::string_view raw) {
  return get<std::uint32_t>(raw);
}
std::uint64_t get_u64(std::string_view raw) {
  return get<std::uint64_t>(raw);
}

std::uint64_t sortable(std::int64_t value) {
  return static_cast<std::uint64_t>(value) ^ (1ULL << 63);
}
std::int64_t from_sortable(std::uint64_t value) {
  return static_cast<std::int64_t>(value ^ (1ULL << 63));
}

std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<std::uint8_t>(end.back()) == 0xFF) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<std::uint8_t>(end.back()) + 1);
  return end;
}

KeyRange prefix_range(std::string prefix) {
  std::string last = prefix_end(prefix);
  return {.first = std::move(prefix), .last = std::move(last)};
}

std::uint16_t partition_of(std::uint16_t bucket, std::uint16_t partitions) {
  SG_CHECK(bucket < kStreamBuckets && partitions >= 1 && partitions <= kStreamBuckets,
           "bucket or partitions");
  return static_cast<std::uint16_t>(std::uint32_t{bucket} * partitions / kStreamBuckets);
}

std::string record_key(const StreamKey& stream, std::uint64_t seq) {
  std::string key = stream_row(stream, StreamRow::record);
  put(key, seq);
  return key;
}

std::string snapshot_key(const StreamKey& stream) {
  return stream_row(stream, StreamRow::snapshot);
}

std::string inbox_key(const StreamKey& stream, const StreamKey& source) {
  SG_CHECK(source.bytes.size() == StreamKey::kBytes, "not a stream");
  return stream_row(stream, StreamRow::inbox, StreamKey::kBytes) + source.bytes;
}

std::string request_key(const StreamKey& stream, std::string_view request_id) {
  return stream_row(stream, StreamRow::request, request_id.size()).append(request_id);
}

std::string content_key(const StreamKey& stream) {
  return stream_row(stream, StreamRow::content);
}

std::string operation_key(const StreamKey& stream, std::string_view key32) {
  SG_CHECK(key32.size() == 32, "an operation key has 32 bytes");
  return stream_row(stream, StreamRow::operation, key32.size()).append(key32);
}

KeyRange stream_range(const StreamKey& stream) {
  return prefix_range(stream_prefix(stream, 0));
}
KeyRange stream_range(const StreamKey& stream, StreamRow kind) {
  return prefix_range(stream_row(stream, kind));
}

KeyRange record_range(const StreamKey& stream, std::uint64_t first_seq) {
  return {.first = record_key(stream, first_seq), .last = prefix_end(stream_row(stream, StreamRow::record))};
}

std::optional<ParsedStreamKey> parse_stream_key(std::string_view key) {
  if (key.size() < kStreamPrefix + 1 || get_u16(key) >= kStreamBuckets) return std::nullopt;
  ParsedStreamKey parsed{.bucket = get_u16(key),
                         .stream = std::string(key.substr(2, StreamKey::kBytes)),
                         .kind = static_cast<StreamRow>(key[kStreamPrefix]),
                         .rest = std::string(key.substr(kStreamPrefix + 1))};
  const std::size_t rest = parsed.rest.size();
  switch (parsed.kind) {
    case StreamRow::record:
      return rest == 8 ? std::optional(parsed) : std::nullopt;
    case StreamRow::snapshot:
    case StreamRow::content:
      return rest == 0 ? std::optional(parsed) : std::nullopt;
    case StreamRow::inbox:
      return rest == StreamKey::kBytes ? std::optional(parsed) : std::nullopt;
    case StreamRow::request:
      return parsed;
    case StreamRow::operation:
      return rest == 32 ? std::optional(parsed) : std::nullopt;
  }
  return std::nullopt;
}

std::string index_key(std::uint16_t partition, Index index, std::uint64_t sort, const StreamKey& stream,
                      std::string_view suffix) {
  SG_CHECK(stream.bytes.size() == StreamKey::kBytes, "not a stream");
  std::string key = index_prefix(partition, index);
  put(key, sort);
  key += stream.bytes;
  key += suffix;
  return key;
}

std::string due_key(std::uint16_t partition, std::int64_t due_ms, const StreamKey& stream,
                    std::string_view timer) {
  return index_key(partition, Index::due, sortable(due_ms), stream, timer);
}

std::string in_flight_key(std::uint16_t partition, const StreamKey& stream) {
  return index_key(partition, Index::in_flight, 0, stream);
}

std::string undelivered_key(std::uint16_t partition, const StreamKey& source, std::uint64_t source_seq,
                            std::uint32_t message_index) {
  std::string suffix;
  put(suffix, source_seq);
  put(suffix, message_index);
  return index_key(partition, Index::undelivered, 0, source, suffix);
}

std::string closing_key(std::uint16_t partition, const StreamKey& target, const StreamKey& source) {
  return index_key(partition, Index::closing, 0, target, source.bytes);
}

bool is_index_key(std::string_view key) {
  return key.size() >= sizeof kIndexFamily && get_u16(key) == kIndexFamily;
}

bool is_put_once(std::string_view key) {
  constexpr std::size_t kIndexByte = 4;
  if (key.size() <= kIndexByte || !is_index_key(key)) return false;
  const auto index = static_cast<Index>(key[kIndexByte]);
  return index == Index::in_flight || index == Index::undelivered || index == Index::closing;
}

KeyRange index_range(std::uint16_t partition, Index index) {
  return prefix_range(index_prefix(partition, index));
}

KeyRange index_range(std::uint16_t partition, Index index, std::uint64_t first_sort,
                     std::uint64_t last_sort) {
  KeyRange range{.first = index_prefix(partition, index), .last = index_prefix(partition, index)};
  put(range.first, first_sort);
  put(range.last, last_sort);
  return range;
}

std::optional<ParsedIndexKey> parse_index_key(std::string_view key) {
  if (key.size() < kIndexPrefix || get_u16(key) != kIndexFamily) return std::nullopt;
  return ParsedIndexKey{.partition = get_u16(key.substr(2)),
                        .index = static_cast<Index>(key[4]),
                        .sort = get_u64(key.substr(5)),
                        .stream = std::string(key.substr(13, StreamKey::kBytes)),
                        .suffix = std::string(key.substr(kIndexPrefix))};
}

std::string order_key(std::uint16_t partition, std::uint64_t sequence) {
  std::string key = partition_row(partition, PartitionRow::order);
  put(key, sequence);
  return key;
}

KeyRange order_range(std::uint16_t partition, std::uint64_t first_sequence) {
  return {.first = order_key(partition, first_sequence),
          .last = prefix_end(partition_row(partition, PartitionRow::order))};
}

std::string owner_epoch_key(std::uint16_t partition) {
  return partition_row(partition, PartitionRow::owner_epoch);
}

std::string low_water_key(std::uint16_t partition, Index index) {
  std::string key = partition_row(partition, PartitionRow::low_water);
  key.push_back(static_cast<char>(index));
  return key;
}

std::string applied_key(std::uint16_t partition) {
  return partition_row(partition, PartitionRow::applied);
}

std::string meta_key(MetaRow row) {
  return partition_row(kGlobal, static_cast<std::uint8_t>(row));
}

std::optional<ParsedOrderKey> parse_order_key(std::string_view key) {
  if (key.size() != 13 || get_u16(key) != kPartitionFamily) return std::nullopt;
  if (key[4] != static_cast<char>(PartitionRow::order)) return std::nullopt;
  return ParsedOrderKey{.partition = get_u16(key.substr(2)), .sequence = get_u64(key.substr(5))};
}

}  // namespace sandglass::engine::view
