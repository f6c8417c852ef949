// Intents and results ↔ frames of effect.proto.
#pragma once

#include "activities/effects/http_effect.h"
#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/core/ports/effect.h"
#include "schemas/sandglass/frame/v1/effect.pb.h"

namespace sandglass::activities::effects {

namespace pb = ::sandglass::frame::v1;

/// Both sides use these for their frame readers and writers.
inline constexpr std::size_t max_frame_bytes = 8 << 20;
inline constexpr std::size_t max_body_bytes = 64 << 20;
inline constexpr std::uint32_t max_response_bytes = 4 << 20;

/// Bodies over this travel in a memfd.
inline constexpr std::size_t inline_body_bytes = 64 << 10;

/// `body` is set to a sealed memfd if the body does not stand in the frame. Errors: invalid_argument (too
/// large), io_error.
engine::base::Result<pb::EffectCommand> to_frame(const TimedIntent& timed, engine::base::UniqueFd& body);
engine::base::Result<TimedIntent> from_frame(const pb::EffectIntentFrame& frame, engine::base::UniqueFd body);

pb::EffectMessage to_frame(const Attempt& attempt);
engine::core::EffectResult from_frame(const pb::EffectResultFrame& frame);

}  // namespace sandglass::activities::effects
