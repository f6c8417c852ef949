#include "engine/fold/record_maker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/codec/messages.h"
#include "engine/codec/record.h"

namespace sandglass::engine::fold {
namespace {

// Bounds of what one thing costs in the stored record besides its own bytes: tags, lengths, fixed fields.
constexpr std::size_t kHeaderOverhead = 256;
constexpr std::size_t kItemOverhead = 16;
constexpr std::size_t kMessageOverhead = 96;

std::vector<codec::HeaderTimer> header_timers(const std::vector<core::TimerChange>& changes) {
  std::vector<codec::HeaderTimer> timers;
  timers.reserve(changes.size());
  for (const auto& change : changes) timers.push_back({change.key, change.due_ms});
  return timers;
}

std::size_t part_bytes(const RecordPart& part) {
  std::size_t bytes = 64;  // the reply's digest and slot
  for (const auto& event : part.events) bytes += event.body.size() + kItemOverhead;
  for (const auto& message : part.messages) {
    bytes += message.body.size() + message.correlation.size() + kMessageOverhead;
  }
  for (const auto& slot : part.slots) bytes += slot->bytes.size() + kItemOverhead;
  for (const auto& timer : part.timers_started) bytes += timer.key.size() + kItemOverhead;
  for (const auto& timer : part.timers_ended) bytes += timer.key.size() + kItemOverhead;
  return bytes;
}

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

}  // namespace

RecordPart encode_part(const AnyKind& kind, const core::Turn& turn) {
  RecordPart part;
  if (turn.events) part.events = kind.encode(*turn.events);
  part.slots = turn.slots;
  const auto place = [&](const core::Payload& payload) -> std::optional<std::uint32_t> {
    if (!payload) return std::nullopt;
    // What an event has stored too is stored once: a result that is also told to whoever waits for it.
    const auto same = std::ranges::find(part.slots, payload.slot);
    if (same != part.slots.end())
      return turn.first_slot + static_cast<std::uint32_t>(same - part.slots.begin());
    part.slots.push_back(payload.slot);
    return turn.first_slot + static_cast<std::uint32_t>(part.slots.size() - 1);
  };
  part.messages.reserve(turn.messages.size());
  for (const core::Message& message : turn.messages) {
    part.messages.push_back(codec::encode_message(message, place(message.payload)));
  }
  part.timers_started = header_timers(turn.timers_started);
  part.timers_ended = header_timers(turn.timers_ended);
  if (turn.reply) {
    part.reply_slot = place(*turn.reply);
    if (part.reply_slot) part.reply_digest = turn.reply->digest;
  }
  part.bytes = part_bytes(part);
  return part;
}

RecordMaker::RecordMaker(codec::TurnHeader header)
    : header_(std::move(header)), bytes_(kHeaderOverhead + header_.request_id.size()) {}

void RecordMaker::add(RecordPart part) {
  empty_ = empty_ && part.empty();
  bytes_ += part.bytes;
  append(header_.events, part.events);
  append(header_.messages, part.messages);
  append(slots_, part.slots);
  // In a record ends come before starts: a timer that this part ends and an earlier part started is not
  // started.
  for (const auto& ended : part.timers_ended) std::erase(header_.timers_started, ended);
  append(header_.timers_ended, part.timers_ended);
  append(header_.timers_started, part.timers_started);
  if (part.reply_slot && !header_.reply_slot) {
    header_.reply_slot = part.reply_slot;
    header_.reply_digest = part.reply_digest;
  }
}

MadeRecord RecordMaker::finish(codec::InFlightChange in_flight, bool unanswered) {
  header_.in_flight = in_flight;
  header_.unanswered = unanswered;
  MadeRecord made{
      .record = {.stream = header_.stream, .seq = header_.seq, .header = codec::encode_header(header_)}};
  made.record.slots = std::move(slots_);
  made.leaf = codec::leaf_hash(made.record);
  made.header = std::move(header_);
  return made;
}

}  // namespace sandglass::engine::fold
