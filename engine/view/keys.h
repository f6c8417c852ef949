// Keys of every table: three families, all big-endian, so that byte order is domain order (J11).
//
//   stream rows     bucket(2) · stream(17) · kind(1) · …             bucket < 1024
//   index rows      0xFFFE · partition(2) · index(1) · sort(8) · stream(17) · suffix
//   partition rows  0xFFFF · partition(2) · kind(1) · …              global rows: partition 0xFFFF
//
// A bucket is one range to copy, ingest or drop; the last two families are derived and made anew for a bucket
// that moves. Kind and index bytes are stored: never used again, never renumbered.
//
// Thread rule: pure functions. Errors: parsing gives nullopt for a key of another family or shape.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace sandglass::engine::view {

/// A stream as keys see it: its bucket and its 17 bytes. Made from a core::StreamId (anything with bytes()
/// and bucket()); core is above this folder.
struct StreamKey {
  static constexpr std::size_t kBytes = 17;

  template <class Stream>
    requires requires(const Stream& stream) {
      { stream.bytes() } -> std::convertible_to<std::string>;
      { stream.bucket() } -> std::convertible_to<std::uint16_t>;
    }
  StreamKey(const Stream& stream)
      : bucket(stream.bucket()), bytes(stream.bytes()) {}  // implicit: call sites read well
  StreamKey(std::uint16_t bucket_number, std::string stream_bytes)
      : bucket(bucket_number), bytes(std::move(stream_bytes)) {}

  std::uint16_t bucket;
  std::string bytes;
};

enum class StreamRow : std::uint8_t {
  record = 1,     // seq(8): a stored record
  snapshot = 2,   // the newest state snapshot
  inbox = 3,      // source stream(17): high-water of what that source has sent here (J18)
  request = 4,    // request id: what was answered (J19)
  operation = 5,  // J17's key(32)
  content = 6,    // user content that the kind's own tables show: of a run its search attributes
};

enum class Index : std::uint8_t {
  due = 1,          // sort: due time; suffix: timer key
  in_flight = 2,    // sort: 0
  undelivered = 3,  // sort: 0; suffix: source_seq(8) · index(4)
  visibility = 4,   // sort and suffix as the stream kind says
  closing = 5,      // sort: 0; a source(17, the suffix) in another partition has closed towards the stream,
                    // and the inbox row is not dropped yet (J18)
  match = 6,  // sort: part of a hash of what the stream can be found by, then its time; it may no longer
              // be so, or be another's
};

enum class PartitionRow : std::uint8_t {
  order = 1,        // sequence(8) → codec's order row
  owner_epoch = 2,  // u64
  low_water = 3,    // index(1) → the sort value below which nothing is left (J10)
  applied = 4,      // where on a topic the newest applied record lies (journal/kafka/applied_view.h)
};

enum class MetaRow : std::uint8_t {
  format = 1,      // u32: version of this key layout and its values
  journal_id = 2,  // text
  partitions = 3,  // u16
  key_check = 4,   // what the tenant key must give (J23)
  folder_id = 5,   // text: of the data folder that the journal belongs to
};

/// The folder format that this program writes and reads.
inline constexpr std::uint32_t kFolderFormat = 2;  // 2: a checksum ends each record row
inline constexpr std::uint16_t kStreamBuckets = 1024;

/// Half-open range of keys.
struct KeyRange {
  std::string first;
  std::string last;
};

// Numbers as they stand in keys and fixed-width values.
void put_u16(std::string& out, std::uint16_t value);
void put_u32(std::string& out, std::uint32_t value);
void put_u64(std::string& out, std::uint64_t value);
std::uint16_t get_u16(std::string_view raw);  // of the first bytes, which must be there
std::uint32_t get_u32(std::string_view raw);
std::uint64_t get_u64(std::string_view raw);
/// Signed times in unsigned byte order, and back.
std::uint64_t sortable(std::int64_t value);
std::int64_t from_sortable(std::uint64_t value);

/// The first key after every key that starts with `prefix`; empty: there is none.
std::string prefix_end(std::string_view prefix);
KeyRange prefix_range(std::string prefix);

/// Which partition a bucket belongs to: contiguous ranges of buckets, 1 ≤ partitions ≤ 1024.
std::uint16_t partition_of(std::uint16_t bucket, std::uint16_t partitions);

// Stream rows.
std::string record_key(const StreamKey& stream, std::uint64_t seq);
std::string snapshot_key(const StreamKey& stream);
std::string inbox_key(const StreamKey& stream, const StreamKey& source);
std::string request_key(const StreamKey& stream, std::string_view request_id);
std::string operation_key(const StreamKey& stream, std::string_view key32);
std::string content_key(const StreamKey& stream);
/// Everything of one stream; one kind of row of it; its records with first ≤ seq.
KeyRange stream_range(const StreamKey& stream);
KeyRange stream_range(const StreamKey& stream, StreamRow kind);
KeyRange record_range(const StreamKey& stream, std::uint64_t first_seq);

struct ParsedStreamKey {
  std::uint16_t bucket = 0;
  std::string stream;  // 17 bytes
  StreamRow kind = StreamRow::record;
  std::string rest;  // seq, source, request id, key
};
std::optional<ParsedStreamKey> parse_stream_key(std::string_view key);

// Index rows.
std::string index_key(std::uint16_t partition, Index index, std::uint64_t sort, const StreamKey& stream,
                      std::string_view suffix = {});
std::string due_key(std::uint16_t partition, std::int64_t due_ms, const StreamKey& stream,
                    std::string_view timer);
std::string in_flight_key(std::uint16_t partition, const StreamKey& stream);
std::string undelivered_key(std::uint16_t partition, const StreamKey& source, std::uint64_t source_seq,
                            std::uint32_t message_index);
std::string closing_key(std::uint16_t partition, const StreamKey& target, const StreamKey& source);
/// Whether the key is, or begins, one of an index row.
bool is_index_key(std::string_view key);
/// Rows of indexes that opening reads from end to end. Such a row is never put over itself: between two puts
/// it is deleted. A store that relies on it keeps nothing of a row that has come and gone (J10).
bool is_put_once(std::string_view key);
/// All rows of an index; those with first ≤ sort < last.
KeyRange index_range(std::uint16_t partition, Index index);
KeyRange index_range(std::uint16_t partition, Index index, std::uint64_t first_sort, std::uint64_t last_sort);

struct ParsedIndexKey {
  std::uint16_t partition = 0;
  Index index = Index::due;
  std::uint64_t sort = 0;
  std::string stream;  // 17 bytes
  std::string suffix;
};
std::optional<ParsedIndexKey> parse_index_key(std::string_view key);

// Partition rows and global rows.
std::string order_key(std::uint16_t partition, std::uint64_t sequence);
KeyRange order_range(std::uint16_t partition, std::uint64_t first_sequence = 0);
std::string owner_epoch_key(std::uint16_t partition);
std::string low_water_key(std::uint16_t partition, Index index);
std::string applied_key(std::uint16_t partition);
std::string meta_key(MetaRow row);

struct ParsedOrderKey {
  std::uint16_t partition = 0;
  std::uint64_t sequence = 0;
};
std::optional<ParsedOrderKey> parse_order_key(std::string_view key);

}  // namespace sandglass::engine::view
