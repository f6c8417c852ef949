// Port: runs workflow code (J12). The shard sees only this; engine/workflow implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/core/decider.h"

namespace sandglass::engine::core {

/// A decided record as workflow code sees it; live (just decided) and rebuilt (read back) alike.
struct TurnView {
  TurnInfo info;
  std::shared_ptr<const EventBatch> events;
  std::vector<SlotPtr> slots;
};

/// What workflow code is asked about its present state. Nothing comes of it but the answer.
struct Question {
  enum class Kind : std::uint8_t {
    query,   // a caller wants to know something
    consent  // may an update with this input be accepted?
  };
  Kind kind = Kind::query;
  std::string name;
  SlotPtr input;  // JSON; null: none
};

struct ActivationRequest {
  StreamId stream;
  std::uint64_t head = 0;                    // the decided head, the open record included
  std::shared_ptr<const StreamState> state;  // decided state at that head
  /// Without a live coroutine: every turn since the restart point (Activator::restart_point). With one: the
  /// turns that it has not seen; its own output counts as seen. The last one is the open record. A record
  /// that was decided in two parts (a command, then the output that it caused) may stand here as two turns
  /// with the same `info`.
  std::vector<TurnView> turns;
  bool rebuild = false;
  /// Then `state` may be one that workflow code has no part in any more, and there is no open record.
  std::optional<Question> question = std::nullopt;
};

struct ActivationAnswer {
  StreamId stream;
  std::uint64_t head = 0;  // of the request: the command's expected head
  /// The workflow's output as a command of the stream's decider, or why there is none. Null: nothing to add.
  base::Result<CommandPtr> command = CommandPtr{};
  /// Of a request with a question instead of `command`: JSON (of a consent empty), or why not.
  std::optional<base::Result<std::string>> said = std::nullopt;
};

/// Thread rule: one thread calls; implementations may use others behind it, and let go of the request's state
/// before they hand out its answer (the shard then changes it in place).
class Activator {
 public:
  virtual ~Activator() = default;

  /// True if a live coroutine for this stream is at exactly `head`: then a request needs only newer turns.
  virtual bool is_live_at(const StreamId& stream, std::uint64_t head) const = 0;
  /// The sequence of the first record that a rebuild needs (the last checkpoint's, else 1).
  virtual std::uint64_t restart_point(const StreamState& state) const = 0;

  virtual void submit(ActivationRequest request) = 0;
  /// Appends answers that have become ready. In simulation the code runs inside this call.
  virtual void poll(std::vector<ActivationAnswer>& answers) = 0;
  /// Forgets the live coroutine, if there is one. A pending request of the stream is answered or dropped.
  virtual void evict(const StreamId& stream) = 0;
  /// Forgets all of them, pending requests included: the shard has lost its ownership (J6).
  virtual void evict_all() = 0;
};

}  // namespace sandglass::engine::core
