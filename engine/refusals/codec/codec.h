// The refusals stream's events and state as stored bytes, and its stream kind.
// Thread rule: pure functions. Errors: event_unknown for what is newer than this program, record_damaged.
#pragma once

#include <string>
#include <string_view>

#include "engine/fold/stream_kind.h"
#include "engine/refusals/refusals.h"

namespace sandglass::engine::refusals::codec {

struct RefusalsCodec {
  static fold::EncodedEvent encode(const RefusalsDecider::Event& event);
  static base::Result<RefusalsDecider::Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const State& state);
  static base::Result<State> decode_state(std::string_view bytes);
};

using RefusalsKind =
    fold::Kind<core::StreamKind::refusals, false, RefusalsDecider, RefusalsCodec, fold::NoView>;

}  // namespace sandglass::engine::refusals::codec
