// sandglass-effect without its main: takes intents from the engine's socket, performs many side by side, a
// bounded number for each target, and answers each once. Keeps nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "activities/effects/http_effect.h"
#include "engine/base/unique_fd.h"

namespace sandglass::activities::effects {

struct ExecutorLimits {
  std::uint32_t max_in_flight = 64;
  std::uint32_t max_per_target = 8;
};

/// Thread rule: make, run and destroy on one thread. Call start_http() first.
class Executor {
 public:
  /// The world outlives the executor.
  Executor(const EffectWorld& world, ExecutorLimits limits, engine::base::UniqueFd engine);
  /// Waits for the attempts that are under way.
  ~Executor();

  /// Until the engine's end of the socket closes (ok), or sends what is no command (frame_malformed), or an
  /// attempt is at work beyond its cut-off (timed_out): then the process must end, since nothing else will
  /// end it.
  engine::base::Status run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandglass::activities::effects
