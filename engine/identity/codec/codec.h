// The identity stream's events and state as stored bytes.
#pragma once

#include <string>
#include <string_view>

#include "engine/fold/stream_kind.h"
#include "engine/identity/decider.h"

namespace sandglass::engine::identity::codec {

struct IdentityCodec {
  static fold::EncodedEvent encode(const Event& event);
  /// event_unknown for a type or version that is newer than this program, record_damaged for bytes that do
  /// not parse.
  static base::Result<Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const State& state);
  static base::Result<State> decode_state(std::string_view bytes);
};

using IdentityKind = fold::Kind<core::StreamKind::identity, false, Decider, IdentityCodec, fold::NoView>;

}  // namespace sandglass::engine::identity::codec
