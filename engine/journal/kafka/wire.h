// Messages of topic `history`: how a record lies on Kafka.
//
//   partition   that of the shard: one topic partition each, numbered alike
//   key         stream id as text ("run-3f…", StreamId::parse); fences and fillers have none
//   value       kind record, epoch: the record row, exactly as it is stored (codec/record.h); else empty
//   headers     text, each once:
//     sg.format      "1"
//     sg.kind        "record" | "epoch" | "fence" | "filler"
//     sg.journal     journal id
//     sg.epoch       owner epoch of whoever first wrote it, decimal         record, epoch
//     sg.sequence    place in the partition's order, decimal, from 1        record, epoch
//     sg.previous    chain hash of sequence - 1, 64 hex digits              record, epoch
//     sg.stream-seq  place in its stream, decimal, from 1                   record, epoch
//     sg.nonce       whatever the writer drew, to be found again            fence
//
//   record   one decision (J1).
//   epoch    a new owner begins: the first record of its epoch, in the stream of the partition's owners
//            (rows/owners.h), and in the chain like any other. It has no events.
//   fence    a new owner was here; says nothing about the order and is not in the chain (J25).
//   filler   keeps a transaction open (J24); says nothing.
//
// A record's own chain hash is SHA-256(tag ‖ previous ‖ partition ‖ sequence ‖ epoch ‖ leaf) and its leaf
// SHA-256 over the stored bytes (codec/record.h, J22): both are computed by whoever reads, never believed.
// Publishing a record again gives the same key, value and headers, byte for byte. A reader keeps headers of
// other names out of account; one of `sg.` that it does not know is a newer format (J4).
//
// Thread rule: pure functions. Errors: record_damaged for what is not a message of this format,
// format_unknown for what is newer than this program.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::journal::kafka {

inline constexpr std::uint32_t kWireFormat = 1;

struct Header {
  std::string name;
  std::string value;
  friend bool operator==(const Header&, const Header&) = default;
};

/// A message as a producer takes it and a consumer gives it.
struct Message {
  std::int64_t offset = -1;  // where it lies; -1: nowhere yet
  std::string key;
  std::string value;
  std::vector<Header> headers;
};

/// The same where it lies: the bytes are another's.
struct HeaderView {
  std::string_view name;
  std::string_view value;
};
struct MessageView {
  std::int64_t offset = -1;
  std::string_view key;
  std::string_view value;
  std::span<const HeaderView> headers;
};

enum class Kind : std::uint8_t { record, epoch, fence, filler };

/// What the headers and the key say; nothing of it is checked against the value.
struct Envelope {
  Kind kind = Kind::record;
  std::string journal;
  core::OwnerEpoch epoch = 0;
  core::Sequence sequence = 0;  // 0: fence, filler
  base::Hash256 previous;
  core::StreamId stream;
  std::uint64_t stream_seq = 0;
  std::string nonce;

  bool sequenced() const { return kind == Kind::record || kind == Kind::epoch; }
};

/// What is left of a message once it is read from the log.
struct ReadMessage {
  std::int64_t offset = -1;
  std::string value;
  base::Result<Envelope> envelope;
  std::string journal;  // whose it says it is, where the envelope cannot be read
};

/// `row`: the record's stored bytes.
Message encode_record(std::string_view journal, Kind kind, const core::OrderLink& link,
                      const base::Hash256& previous, std::string row);
Message encode_fence(std::string_view journal, std::string_view nonce);
Message encode_filler(std::string_view journal);

base::Result<Envelope> decode_envelope(const Message& message);
/// Whose message it says it is, of whatever format; empty: nobody's.
std::string_view journal_of(const Message& message);
ReadMessage read_message(const MessageView& message);
ReadMessage read_message(const Message& message);
/// The record of a sequenced envelope, with leaf and chain hash computed from its bytes.
base::Result<core::OrderedRecord> decode_record(const Envelope& envelope, std::string_view value,
                                                core::PartitionId partition);

}  // namespace sandglass::engine::journal::kafka
