#include "engine/codec/header.h"

#include <google/protobuf/arena.h>

#include "engine/base/check.h"
#include "engine/codec/common.h"

namespace sandglass::engine::codec {
namespace {

constexpr std::size_t kArenaBlock = 4096;

std::unexpected<base::Error> damaged(std::string what) {
  return base::fail(base::Code::record_damaged, "a record header is damaged: " + std::move(what) +
                                                    "; restore the data folder from a backup");
}

void write_message(const OutMessage& message, proto::OutMessage& out) {
  out.set_target(stream_bytes(message.target));
  out.set_type(message.type);
  out.set_version(message.version);
  out.set_body(message.body);
  out.set_correlation(message.correlation);
  out.set_closing(message.closing);
  out.set_payload_slot(message.payload_slot ? *message.payload_slot + 1 : 0);
  out.set_payload_digest(hash_bytes(message.payload_digest.hash));
}

base::Result<OutMessage> read_message(const proto::OutMessage& in) {
  const auto target = stream_from(in.target());
  const auto digest = hash_from(in.payload_digest());
  if (!target) return std::unexpected(target.error());
  if (!digest) return std::unexpected(digest.error());
  OutMessage message{.target = *target,
                     .type = in.type(),
                     .version = in.version(),
                     .body = in.body(),
                     .correlation = in.correlation(),
                     .closing = in.closing(),
                     .payload_slot = std::nullopt,
                     .payload_digest = {*digest}};
  if (in.payload_slot() > 0) message.payload_slot = in.payload_slot() - 1;
  return message;
}

/// True if any part of the header has fields that this program does not know.
bool has_unknown(const proto::TurnHeader& in) {
  if (has_unknown_fields(in) || (in.has_consumed() && has_unknown_fields(in.consumed()))) return true;
  for (const auto& event : in.events()) {
    if (has_unknown_fields(event)) return true;
  }
  for (const auto& message : in.messages()) {
    if (has_unknown_fields(message)) return true;
  }
  for (const auto* timers : {&in.timers_started(), &in.timers_ended()}) {
    for (const auto& timer : *timers) {
      if (has_unknown_fields(timer)) return true;
    }
  }
  return static_cast<int>(in.in_flight()) > proto::IN_FLIGHT_LEFT;
}

base::Status read_parts(const proto::TurnHeader& in, TurnHeader& header) {
  if (in.has_consumed()) {
    const auto source = stream_from(in.consumed().source());
    if (!source) return std::unexpected(source.error());
    header.consumed = ConsumedMessage{.source = *source,
                                      .source_seq = in.consumed().source_seq(),
                                      .index = in.consumed().index(),
                                      .closing = in.consumed().closing()};
  }
  header.events.reserve(static_cast<std::size_t>(in.events_size()));
  for (const auto& event : in.events()) {
    header.events.push_back({.type = event.type(), .version = event.version(), .body = event.body()});
  }
  for (const auto& each : in.messages()) {
    auto message = read_message(each);
    if (!message) return std::unexpected(message.error());
    header.messages.push_back(std::move(*message));
  }
  for (const auto& timer : in.timers_started())
    header.timers_started.push_back({timer.key(), timer.due_ms()});
  for (const auto& timer : in.timers_ended()) header.timers_ended.push_back({timer.key(), timer.due_ms()});
  return {};
}

}  // namespace

std::string encode_header(const TurnHeader& header) {
  alignas(8) char block[kArenaBlock];
  google::protobuf::Arena arena(block, sizeof block);
  auto& out = *google::protobuf::Arena::CreateMessage<proto::TurnHeader>(&arena);
  out.set_stream(header.stream.bytes());
  out.set_seq(header.seq);
  out.set_previous(hash_bytes(header.previous));
  out.set_time_ms(header.time_ms);
  out.set_epoch(header.epoch);
  out.set_continues(header.continues);
  out.set_request_id(header.request_id);
  if (header.consumed) {
    auto& consumed = *out.mutable_consumed();
    consumed.set_source(stream_bytes(header.consumed->source));
    consumed.set_source_seq(header.consumed->source_seq);
    consumed.set_index(header.consumed->index);
    consumed.set_closing(header.consumed->closing);
  }
  for (const EncodedEvent& event : header.events) {
    auto& made = *out.add_events();
    made.set_type(event.type);
    made.set_version(event.version);
    made.set_body(event.body);
  }
  for (const OutMessage& message : header.messages) write_message(message, *out.add_messages());
  const auto write_timer = [](const HeaderTimer& timer, proto::TimerChange& made) {
    made.set_key(timer.key);
    made.set_due_ms(timer.due_ms);
  };
  for (const HeaderTimer& timer : header.timers_started) write_timer(timer, *out.add_timers_started());
  for (const HeaderTimer& timer : header.timers_ended) write_timer(timer, *out.add_timers_ended());
  out.set_in_flight(static_cast<proto::InFlight>(header.in_flight));
  out.set_reply_slot(header.reply_slot ? *header.reply_slot + 1 : 0);
  out.set_request_digest(hash_bytes(header.request_digest));
  out.set_reply_digest(hash_bytes(header.reply_digest.hash));
  out.set_unanswered(header.unanswered);
  std::string bytes;
  SG_CHECK(out.SerializeToString(&bytes), "a header cannot be serialised");
  return bytes;
}

base::Result<TurnHeader> decode_header(std::uint32_t format, std::string_view bytes) {
  if (format == 0 || format > core::kRecordFormat) {
    return base::fail(base::Code::format_unknown,
                      "record format " + std::to_string(format) +
                          " is not known to this program; use the program that wrote it");
  }
  alignas(8) char block[kArenaBlock];
  google::protobuf::Arena arena(block, sizeof block);
  auto& in = *google::protobuf::Arena::CreateMessage<proto::TurnHeader>(&arena);
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return damaged("it is not a TurnHeader");
  if (has_unknown(in)) {
    return base::fail(base::Code::format_unknown,
                      "a record header has fields of a newer version; use the program that wrote it");
  }
  TurnHeader header{.seq = in.seq(),
                    .time_ms = in.time_ms(),
                    .epoch = in.epoch(),
                    .continues = in.continues(),
                    .request_id = in.request_id(),
                    .in_flight = static_cast<InFlightChange>(in.in_flight())};
  const auto stream = core::StreamId::from_bytes(in.stream());
  if (!stream) return damaged("its stream id has the wrong length");
  header.stream = *stream;
  const auto previous = hash_from(in.previous());
  const auto request = hash_from(in.request_digest());
  const auto reply = hash_from(in.reply_digest());
  if (!previous || !request || !reply) return damaged("a digest has the wrong length");
  header.previous = *previous;
  header.request_digest = *request;
  header.reply_digest = {*reply};
  header.unanswered = in.unanswered();
  if (in.reply_slot() > 0) header.reply_slot = in.reply_slot() - 1;
  if (const auto parts = read_parts(in, header); !parts) return std::unexpected(parts.error());
  return header;
}

base::Result<TurnHeader> decode_header(const core::StoredRecord& record) {
  auto header = decode_header(record.format, record.header);
  if (!header) return header;
  if (header->stream != record.stream || header->seq != record.seq) {
    return damaged("it names " + header->stream.text() + " seq " + std::to_string(header->seq) +
                   " but lies at " + record.stream.text() + " seq " + std::to_string(record.seq));
  }
  const auto in_range = [&](const std::optional<std::uint32_t>& slot) {
    return !slot || *slot < record.slots.size();
  };
  bool good = in_range(header->reply_slot);
  for (const OutMessage& message : header->messages) good = good && in_range(message.payload_slot);
  if (!good) return damaged("it names a slot that is not there");
  return header;
}

}  // namespace sandglass::engine::codec
