// Streams: what every durable thing is. A stream's id decides its bucket, and the bucket its partition.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sandglass::engine::core {

/// Kinds of streams. Values are stored: never used again, never renumbered.
enum class StreamKind : std::uint8_t {
  none = 0,
  run = 1,
  admission = 2,
  pool = 3,
  approvals = 4,
  schedule = 5,
  identity = 6,   // tokens and who they stand for
  partition = 7,  // the shard's own stream: acknowledged outbox messages
  refusals = 8,   // what callers were refused
  test = 250,     // deciders that tests bring
};

/// Buckets are fixed for ever (J11): one is the unit that is copied, ingested or dropped.
inline constexpr std::uint16_t kBuckets = 1024;

/// Kind and 128 bits. Ordered and stored as 17 bytes: kind, then the id as it is.
struct StreamId {
  static constexpr std::size_t kBytes = 17;

  StreamKind kind = StreamKind::none;
  std::array<std::uint8_t, 16> id{};

  /// A stream that there is once per cluster or per name, such as the admission stream ("") or a pool.
  static StreamId named(StreamKind kind, std::string_view name);
  /// A run started without an id: a hash of tenant and request id, so that a retry meets the same run (J19).
  static StreamId for_request(StreamKind kind, std::string_view tenant, std::string_view request_id);
  static std::optional<StreamId> from_bytes(std::string_view raw);
  /// "run-<32 hex digits>", as shown to people and taken from them.
  static std::optional<StreamId> parse(std::string_view text);

  std::string bytes() const;
  std::string text() const;
  std::uint16_t bucket() const;

  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

std::string_view name_of(StreamKind kind);

struct StreamIdHash {
  std::size_t operator()(const StreamId& stream) const;
};

}  // namespace sandglass::engine::core
