// Stored form of runs: events as schemas/sandglass/record/v1/run.proto, state snapshots as cereal with a
// version. Thread rule: pure functions. Errors: event_unknown for what is newer than this program (J4);
// record_damaged; checkpoint_undecodable for a snapshot, which is rebuildable and then ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/codec/event.h"
#include "engine/run/events.h"
#include "engine/run/state.h"

namespace sandglass::engine::run::codec {

/// Changes with every change of State's shape.
inline constexpr std::uint32_t kStateVersion = 5;

struct RunCodec {
  static engine::codec::EncodedEvent encode(const Event& event);
  static base::Result<Event> decode(const engine::codec::EncodedEvent& stored);
  static std::string encode_state(const State& state);
  static base::Result<State> decode_state(std::string_view bytes);
};

/// "RunStarted" …, for people; "unknown" for a type that this program does not know.
std::string_view event_name(std::uint32_t type);
std::string_view event_name(const Event& event);

}  // namespace sandglass::engine::run::codec
