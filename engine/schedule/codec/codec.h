// Stored form of schedule streams. Thread rule: pure functions. Errors: record_damaged, event_unknown.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/fold/stream_kind.h"
#include "engine/schedule/decider.h"

namespace sandglass::engine::schedule::codec {

struct ScheduleCodec {
  static fold::EncodedEvent encode(const Event& event);
  static base::Result<Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const State& state);
  static base::Result<State> decode_state(std::string_view bytes);
};

std::shared_ptr<const fold::AnyKind> make_schedule_kind();

}  // namespace sandglass::engine::schedule::codec
