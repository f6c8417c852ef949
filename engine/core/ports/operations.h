// Port: what stands behind actions of the kinds `reserve` and `effect` (J16). activities/operations
// implements it on top of an EffectExecutor; the dispatcher routes to it and does tokens, inputs and digests.
#pragma once

#include <cstdint>

#include "engine/core/ports/activity.h"

namespace sandglass::engine::core {

/// Thread rule: start and cancel are called from the dispatcher's thread and must not block; `done` may be
/// called from any thread, once.
class Operations {
 public:
  virtual ~Operations() = default;

  /// A place in the executor is wanted. `done(Outcome::done)` once there is one, kept until the operation's
  /// effect has ended or it is cancelled. call.input is the operation's input.
  virtual void reserve(ActivityCall call, ActivityDone done) = 0;
  /// The intent is durable: perform it. The effect may start only while less than `permit_ms` has passed
  /// since this call and is cut at call.start_to_close_ms.
  virtual void perform(ActivityCall call, std::int64_t permit_ms, ActivityDone done) = 0;
  /// No longer wanted: a reservation is given back, an effect that has not started is not started.
  virtual void cancel(const StreamId& stream, const std::string& path, const Token& token) = 0;
};

}  // namespace sandglass::engine::core
