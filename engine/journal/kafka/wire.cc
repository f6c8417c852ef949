#include "engine/journal/kafka/wire.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <optional>
#include <utility>

#include "engine/codec/header.h"
#include "engine/codec/record.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::string_view kPrefix = "sg.";
enum Field : std::uint8_t { format, kind, journal, epoch, sequence, previous, stream_seq, nonce, kFields };
constexpr std::array<std::string_view, kFields> kNames = {"sg.format",     "sg.kind",     "sg.journal",
                                                          "sg.epoch",      "sg.sequence", "sg.previous",
                                                          "sg.stream-seq", "sg.nonce"};
constexpr std::array<std::pair<Kind, std::string_view>, 4> kKinds = {
    {{Kind::record, "record"}, {Kind::epoch, "epoch"}, {Kind::fence, "fence"}, {Kind::filler, "filler"}}};
/// Epochs and sequences stay far from the end of their type, whatever somebody writes into the topic.
constexpr std::uint64_t kMostNumber = 1ULL << 62;

std::string name_of(Kind kind_of) {
  return std::string(kKinds[static_cast<std::size_t>(kind_of)].second);
}

Message make(std::string_view journal_id, Kind kind_of) {
  Message message;
  message.headers.reserve(kFields);
  message.headers.push_back({std::string(kNames[format]), std::to_string(kWireFormat)});
  message.headers.push_back({std::string(kNames[kind]), name_of(kind_of)});
  message.headers.push_back({std::string(kNames[journal]), std::string(journal_id)});
  return message;
}

std::vector<HeaderView> headers_of(const Message& message) {
  std::vector<HeaderView> headers;
  headers.reserve(message.headers.size());
  for (const Header& header : message.headers) headers.push_back({header.name, header.value});
  return headers;
}

MessageView view_of(const Message& message, const std::vector<HeaderView>& headers) {
  return {.offset = message.offset, .key = message.key, .value = message.value, .headers = headers};
}

std::unexpected<base::Error> damaged(std::int64_t offset, const std::string& what) {
  return base::fail(base::Code::record_damaged,
                    "the message at offset " + std::to_string(offset) + " is not one of a journal: " + what);
}

/// Decimal, without sign, blanks or leading zeros: one text per number.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0 || number > kMostNumber ||
      text.front() == '0') {
    return std::nullopt;
  }
  return number;
}

/// Hex digits are written in one way.
bool has_capitals(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// The headers of ours, each at most once.
struct Fields {
  std::array<std::string_view, kFields> values;
  std::bitset<kFields> there;

  base::Status take(const MessageView& message) {
    bool newer = false;
    std::size_t next = 0;  // they stand in this order when we have written them
    for (const HeaderView& header : message.headers) {
      if (!header.name.starts_with(kPrefix)) continue;
      std::size_t field = next < kFields && kNames[next] == header.name ? next : 0;
      while (field < kFields && kNames[field] != header.name) ++field;
      next = field + 1;
      if (field == kFields) {
        newer = true;
        continue;
      }
      if (there[field])
        return damaged(message.offset, "header " + std::string(header.name) + " stands there twice");
      there[field] = true;
      values[field] = header.value;
    }
    if (!there[format] || !there[journal] || !there[kind])
      return damaged(message.offset, "it has not the headers of one");
    if (const auto number = parse_number(values[format]); !number) {
      return damaged(message.offset, "its format is not a number");
    } else if (*number > kWireFormat || newer) {
      return base::fail(base::Code::format_unknown, "the message at offset " +
                                                        std::to_string(message.offset) + " has format " +
                                                        std::to_string(*number) +
                                                        ", or headers that this program does not know: use "
                                                        "the newer program that wrote it");
    }
    return {};
  }
  /// Exactly these besides format, kind and journal.
  bool only(std::initializer_list<Field> wanted) const {
    std::bitset<kFields> all;
    all[format] = all[kind] = all[journal] = true;
    for (const Field field : wanted) all[field] = true;
    return there == all;
  }
};

base::Result<Envelope> envelope_of(const MessageView& message) {
  Fields fields;
  if (auto status = fields.take(message); !status) return std::unexpected(status.error());
  Envelope envelope{.journal = std::string(fields.values[journal])};
  bool known = false;
  for (const auto& [value, name] : kKinds) {
    if (name != fields.values[kind]) continue;
    envelope.kind = value;
    known = true;
  }
  if (!known) return damaged(message.offset, "its kind is unknown");
  if (!envelope.sequenced()) {
    const bool fence = envelope.kind == Kind::fence;
    if (!(fence ? fields.only({nonce}) : fields.only({})) || !message.key.empty() || !message.value.empty())
      return damaged(message.offset, "a fence or filler has more or less than it must");
    envelope.nonce = fields.values[nonce];
    return envelope;
  }
  if (!fields.only({epoch, sequence, previous, stream_seq}))
    return damaged(message.offset, "a record has more or fewer headers than it must");
  const auto epoch_number = parse_number(fields.values[epoch]);
  const auto sequence_number = parse_number(fields.values[sequence]);
  const auto stream_number = parse_number(fields.values[stream_seq]);
  const auto before = base::Hash256::from_hex(fields.values[previous]);
  const auto stream = core::StreamId::parse(message.key);
  if (!epoch_number || !sequence_number || !stream_number || !before || has_capitals(fields.values[previous]))
    return damaged(message.offset, "a number or hash in its headers is malformed");
  if (!stream || has_capitals(message.key)) return damaged(message.offset, "its key is not a stream id");
  envelope.epoch = *epoch_number;
  envelope.sequence = *sequence_number;
  envelope.previous = *before;
  envelope.stream = *stream;
  envelope.stream_seq = *stream_number;
  return envelope;
}

}  // namespace

Message encode_record(std::string_view journal_id, Kind kind_of, const core::OrderLink& link,
                      const base::Hash256& before, std::string row) {
  Message message = make(journal_id, kind_of);
  message.key = link.stream.text();
  message.value = std::move(row);
  message.headers.push_back({std::string(kNames[epoch]), std::to_string(link.epoch)});
  message.headers.push_back({std::string(kNames[sequence]), std::to_string(link.sequence)});
  message.headers.push_back({std::string(kNames[previous]), before.hex()});
  message.headers.push_back({std::string(kNames[stream_seq]), std::to_string(link.stream_seq)});
  return message;
}

Message encode_fence(std::string_view journal_id, std::string_view drawn) {
  Message message = make(journal_id, Kind::fence);
  message.headers.push_back({std::string(kNames[nonce]), std::string(drawn)});
  return message;
}

Message encode_filler(std::string_view journal_id) {
  return make(journal_id, Kind::filler);
}

base::Result<Envelope> decode_envelope(const Message& message) {
  const std::vector<HeaderView> headers = headers_of(message);
  return envelope_of(view_of(message, headers));
}

std::string_view journal_of(const Message& message) {
  const auto named = std::ranges::find(message.headers, kNames[journal], &Header::name);
  return named == message.headers.end() ? std::string_view() : std::string_view(named->value);
}

ReadMessage read_message(const Message& message) {
  const std::vector<HeaderView> headers = headers_of(message);
  return read_message(view_of(message, headers));
}

ReadMessage read_message(const MessageView& message) {
  ReadMessage read{
      .offset = message.offset, .value = std::string(message.value), .envelope = envelope_of(message)};
  if (read.envelope) return read;
  const auto named = std::ranges::find(message.headers, kNames[journal], &HeaderView::name);
  if (named != message.headers.end()) read.journal = named->value;
  return read;
}

base::Result<core::OrderedRecord> decode_record(const Envelope& envelope, std::string_view value,
                                                core::PartitionId partition) {
  auto record = codec::decode_record(envelope.stream, envelope.stream_seq, value);
  if (!record) return std::unexpected(record.error());
  core::OrderLink link{.sequence = envelope.sequence,
                       .epoch = envelope.epoch,
                       .stream = envelope.stream,
                       .stream_seq = envelope.stream_seq};
  link.leaf = codec::leaf_hash(*record);
  link.chain = codec::chain_hash(envelope.previous, partition, link.sequence, link.epoch, link.leaf);
  return core::OrderedRecord{.link = std::move(link), .record = std::move(*record)};
}

}  // namespace sandglass::engine::journal::kafka
