// The engine's side of sandglass-effect: core::EffectExecutor over the socket that the supervisor made. When
// the process behind it is replaced, what it had in hand becomes *unknown* and the waits of J16 start anew.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/core/ports/effect.h"

namespace sandglass::activities::effects {

/// Thread rule: one thread, except wake_fd()'s descriptor, which may be polled anywhere.
class RemoteExecutor final : public engine::core::EffectExecutor {
 public:
  /// Without a socket until attach().
  explicit RemoteExecutor(engine::base::Clock& clock);
  ~RemoteExecutor() override;

  /// A new executor process, started after the former one had ended. Open intents of the former become
  /// unknown.
  void attach(engine::base::UniqueFd socket);

  /// Without an executor, or if it cannot be handed over, the intent is answered not_done by the next poll.
  void submit(engine::core::EffectIntent intent) override;
  void poll(std::vector<engine::core::EffectResult>& results) override;
  /// While no executor is attached: now, so that no wait ever ends.
  std::int64_t alone_since_ms() const override;

  /// Readable when poll() has something to do. The same descriptor for the whole life.
  int wake_fd() const;
  bool connected() const;
  std::size_t in_flight() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandglass::activities::effects
