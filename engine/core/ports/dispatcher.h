// Port: carries out actions. The shard hands over what a durable record asked for; answers come back as
// ActionFinished through `poll`.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/action.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

struct FinishedAction {
  StreamId stream;
  ActionFinished finished;
};

/// Thread rule: one thread calls; implementations may use others behind it.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// A start with the token of an attempt that is already under way is the same attempt (attach).
  virtual void submit(const StreamId& stream, Action action) = 0;
  virtual void poll(std::vector<FinishedAction>& finished) = 0;
  /// Wall time at which poll() has to do something by itself (an action that waits, a limit); none: nothing.
  virtual std::optional<std::int64_t> next_due_ms() const { return std::nullopt; }
  /// The shard has lost its ownership: forget everything; late answers are dropped.
  virtual void abandon_all() = 0;
};

}  // namespace sandglass::engine::core
