// One stream of a decider under test: decides, evolves, and checks at every step that a state and events that
// went through their bytes evolve the same (DESIGN §9).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/core/decider.h"

namespace sandglass::tests {

namespace core = engine::core;
namespace base = engine::base;

template <class Decider, class Codec>
struct Stream {
  core::StreamId id;
  typename Decider::State state;
  std::uint64_t seq = 0;
  core::Turn last;
  std::int64_t calendar_off_ms = 0;  // of the machine's wall clock, from the engine's time

  base::Status apply(typename Decider::Command command, std::int64_t now_ms) {
    const core::DecideInput input{
        .stream = id, .seq = seq + 1, .now_ms = now_ms, .epoch = 1, .calendar_ms = now_ms + calendar_off_ms};
    core::Turn turn;
    core::TurnWriter<typename Decider::Event> writer(turn, input);
    auto decided = Decider::decide(state, command, input, writer);
    if (!decided) return decided;
    ++seq;
    auto replayed = Codec::decode_state(Codec::encode_state(state)).value();
    EXPECT_EQ(replayed, state);
    const core::TurnInfo info{.seq = seq, .time_ms = now_ms, .epoch = 1};
    for (const auto& event : writer.events()) {
      const auto stored = Codec::decode(Codec::encode(event)).value();
      EXPECT_EQ(stored, event);
      Decider::evolve(state, event, info);
      Decider::evolve(replayed, stored, info);
    }
    EXPECT_EQ(Codec::encode_state(replayed), Codec::encode_state(state));
    last = std::move(turn);
    return decided;
  }
  const std::vector<typename Decider::Event>& events() const {
    return static_cast<const core::Events<typename Decider::Event>&>(*last.events).items;
  }
};

inline core::MessageReceived received(const core::StreamId& from, std::string correlation,
                                      core::MessageBody body) {
  core::MessageReceived message;
  message.message.source = from;
  message.message.correlation = std::move(correlation);
  message.message.body = std::move(body);
  return message;
}

/// The bodies of type T that the turn sends to `target`.
template <class T>
std::vector<T> sent(const core::Turn& turn, const core::StreamId& target) {
  std::vector<T> found;
  for (const core::Message& message : turn.messages) {
    if (message.target != target) continue;
    if (const auto* body = std::get_if<T>(&message.body)) found.push_back(*body);
  }
  return found;
}

}  // namespace sandglass::tests
