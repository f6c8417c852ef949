// The clear header of a record: everything but user content, in plain C++. From these fields alone the
// framework derives due, in-flight, undelivered, request and inbox rows of every stream kind.
//
// Thread rule: pure functions. Errors: record_damaged; format_unknown for fields that this program does not
// know, which are never skipped (J4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/codec/event.h"
#include "engine/core/decider.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::codec {

/// The message that a record consumed.
struct ConsumedMessage {
  core::StreamId source;
  std::uint64_t source_seq = 0;
  std::uint32_t index = 0;
  bool closing = false;

  friend bool operator==(const ConsumedMessage&, const ConsumedMessage&) = default;
};

/// A message that a record sends, with its body encoded (messages.h). Source, source_seq and index are the
/// record's stream, its seq and the place in TurnHeader::messages.
struct OutMessage {
  core::StreamId target;
  std::uint32_t type = 0;
  std::uint32_t version = 1;
  std::string body;
  std::string correlation;
  bool closing = false;
  std::optional<std::uint32_t> payload_slot;
  core::ContentDigest payload_digest;

  friend bool operator==(const OutMessage&, const OutMessage&) = default;
};

struct HeaderTimer {
  std::string key;
  std::int64_t due_ms = 0;

  friend bool operator==(const HeaderTimer&, const HeaderTimer&) = default;
};

enum class InFlightChange : std::uint8_t { unchanged = 0, entered = 1, left = 2 };

/// Mirrors sandglass.record.v1.TurnHeader, which has the meaning of each field.
struct TurnHeader {
  core::StreamId stream;
  std::uint64_t seq = 0;
  base::Hash256 previous;  // zero for the first record
  std::int64_t time_ms = 0;
  core::OwnerEpoch epoch = 0;
  std::uint64_t continues = 0;
  std::string request_id;  // empty: no API call
  std::optional<ConsumedMessage> consumed;
  std::vector<EncodedEvent> events;
  std::vector<OutMessage> messages;
  std::vector<HeaderTimer> timers_started;
  std::vector<HeaderTimer> timers_ended;
  InFlightChange in_flight = InFlightChange::unchanged;
  std::optional<std::uint32_t> reply_slot;
  base::Hash256 request_digest;
  core::ContentDigest reply_digest;
  bool unanswered = false;

  core::TurnInfo info() const { return {.seq = seq, .time_ms = time_ms, .epoch = epoch}; }
  friend bool operator==(const TurnHeader&, const TurnHeader&) = default;
};

/// Equal headers give equal bytes.
std::string encode_header(const TurnHeader& header);
/// Bare bytes of a header of record format `format`.
base::Result<TurnHeader> decode_header(std::uint32_t format, std::string_view bytes);
/// As above, and checks that header, key and slots agree (stream, seq, slot numbers).
base::Result<TurnHeader> decode_header(const core::StoredRecord& record);

}  // namespace sandglass::engine::codec
