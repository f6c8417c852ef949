#include "replay-tools/replay/timeline.h"

#include <iterator>
#include <string>

#include "engine/base/check.h"
#include "engine/codec/messages.h"

namespace sandglass::replay_tools::replay {

namespace base = engine::base;
namespace core = engine::core;
namespace fold = engine::fold;

namespace {

constexpr std::size_t kChunk = 256;

bool is_damage(base::Code code) {
  return code == base::Code::stream_damaged || code == base::Code::record_damaged;
}

}  // namespace

Timeline::Timeline(const engine::journal::Reader& reader, const Kinds& kinds, const core::StreamId& stream)
    : reader_(&reader),
      kind_(kinds.kind(stream.kind)),
      describer_(kinds.describer(stream.kind)),
      stream_(stream) {}

base::Result<Timeline> Timeline::read(const engine::journal::Reader& reader, const Kinds& kinds,
                                      const core::StreamId& stream) {
  if (kinds.kind(stream.kind) == nullptr) {
    return base::fail(base::Code::event_unknown, "this program does not know streams of the kind of " +
                                                     stream.text() +
                                                     "; use the program version that wrote them");
  }
  Timeline timeline(reader, kinds, stream);
  if (const auto done = timeline.read_all(); !done) return std::unexpected(done.error());
  if (timeline.turns_.empty() && !timeline.fault_) {
    return base::fail(base::Code::not_found,
                      "there is no " + stream.text() + "; `sandglass list` shows the runs");
  }
  return timeline;
}

base::Status Timeline::read_all() {
  fold::StreamFold folded(*kind_, stream_);
  states_[0] = folded.state();
  while (true) {
    // One record at a time after a fault in a chunk, so that everything before the damage is seen.
    const std::size_t limit = fault_ ? 1 : kChunk;
    const auto records = reader_->read_stream(stream_, turns_.size() + 1, limit);
    if (!records) {
      if (!is_damage(records.error().code)) return std::unexpected(records.error());
      if (limit == 1) return {};
      fault_ = records.error();
      continue;
    }
    if (records->empty()) {
      fault_.reset();
      return {};
    }
    for (const core::StoredRecord& record : *records) {
      auto turn = fold::read_turn(*kind_, record);
      base::Status applied;
      if (turn) {
        applied = folded.apply(*turn);
      } else {
        applied = std::unexpected(turn.error());
      }
      if (!applied) {
        if (!is_damage(applied.error().code)) return applied;
        fault_ = applied.error();
        return {};
      }
      turn->slots.clear();
      turns_.push_back(std::move(*turn));
      if (turns_.size() % kStatesEvery == 0) states_[turns_.size()] = folded.state();
    }
  }
}

const fold::ReadTurn& Timeline::turn(std::uint64_t seq) const {
  SG_CHECK(seq >= 1 && seq <= last(), "no such record in the timeline");
  return turns_[seq - 1];
}

std::shared_ptr<const core::StreamState> Timeline::state_after(std::uint64_t seq) const {
  SG_CHECK(seq <= last(), "no such record in the timeline");
  const auto kept = std::prev(states_.upper_bound(seq));
  if (kept->first == seq) return kept->second;
  const auto state = kind_->copy(*kept->second);
  for (std::uint64_t at = kept->first + 1; at <= seq; ++at) {
    kind_->evolve(*state, *turn(at).events, 0, turn(at).header.info());
  }
  return state;
}

Facts Timeline::facts_after(std::uint64_t seq) const {
  return describer_->state(*state_after(seq));
}

std::vector<core::Action> Timeline::pending_after(std::uint64_t seq) const {
  std::vector<core::Action> actions;
  if (seq == 0) return actions;
  const auto& header = turn(seq).header;
  const core::DecideInput input{
      .stream = stream_, .seq = seq + 1, .now_ms = header.time_ms, .epoch = header.epoch};
  kind_->pending(*state_after(seq), input, actions);
  return actions;
}

std::vector<Sent> Timeline::sent(std::uint64_t seq) const {
  std::vector<Sent> sent;
  for (const engine::codec::OutMessage& message : turn(seq).header.messages) {
    engine::codec::TurnHeader alone{.stream = stream_, .seq = seq};
    alone.messages.push_back(message);
    alone.messages.front().payload_slot.reset();  // payloads are read by payload()
    const auto decoded = engine::codec::decode_message(alone, 0, {});
    sent.push_back({.target = message.target,
                    .correlation = message.correlation,
                    .what = decoded ? describe(decoded->body) : Described{.name = decoded.error().message},
                    .payload_slot = message.payload_slot});
  }
  return sent;
}

base::Result<std::vector<core::SlotPtr>> Timeline::slots(std::uint64_t seq) const {
  auto records = reader_->read_stream(stream_, seq, 1);
  if (!records) return std::unexpected(records.error());
  if (records->empty() || records->front().seq != seq) {
    return base::fail(base::Code::not_found, stream_.text() + " has no record " + std::to_string(seq));
  }
  return std::move(records->front().slots);
}

base::Result<core::SlotPtr> Timeline::payload(const core::PayloadRef& ref) const {
  const auto records = reader_->read_stream(stream_, ref.seq, 1);
  if (!records) return std::unexpected(records.error());
  if (records->empty() || records->front().seq != ref.seq || ref.slot >= records->front().slots.size()) {
    return base::fail(base::Code::not_found, "record " + std::to_string(ref.seq) + " of " + stream_.text() +
                                                 " has no slot " + std::to_string(ref.slot));
  }
  return records->front().slots[ref.slot];
}

}  // namespace sandglass::replay_tools::replay
