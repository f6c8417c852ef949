// Port: what a stream kind's events and states look like as facts. One for each kind; kinds without one of
// their own are shown by BareDescriber.
//
// Thread rule: stateless, callable from any thread.
#pragma once

#include <array>
#include <memory>

#include "engine/core/decider.h"
#include "engine/core/messages/message.h"
#include "engine/fold/stream_kind.h"
#include "replay-tools/replay/facts.h"

namespace sandglass::replay_tools::replay {

/// What a stop of the debugger is worth (DESIGN §7): an event may be several of them.
struct EventMarks {
  bool step = false;
  bool operation = false;
  bool error = false;
};

struct DescribedEvent {
  Described what;
  EventMarks marks;
};

class Describer {
 public:
  virtual ~Describer() = default;
  virtual std::vector<DescribedEvent> events(const engine::core::EventBatch& batch) const = 0;
  virtual Facts state(const engine::core::StreamState& state) const = 0;
};

/// Shows event numbers and sizes only; of the state, how large it is.
class BareDescriber final : public Describer {
 public:
  explicit BareDescriber(std::shared_ptr<const engine::fold::AnyKind> kind) : kind_(std::move(kind)) {}
  std::vector<DescribedEvent> events(const engine::core::EventBatch& batch) const override;
  Facts state(const engine::core::StreamState& state) const override;

 private:
  std::shared_ptr<const engine::fold::AnyKind> kind_;
};

/// A message between streams: name and fields of its body.
Described describe(const engine::core::MessageBody& body);
/// One line: "start exec 0/build attempt 2".
std::string describe(const engine::core::Action& action);

/// The kinds that a tool can fold, and how they are shown. Filled once, read-only afterwards.
class Kinds {
 public:
  /// A null describer: describer_for(kind) (proto_describer.h).
  void add(std::shared_ptr<const engine::fold::AnyKind> kind,
           std::unique_ptr<const Describer> describer = nullptr);
  /// Null for an unknown kind.
  const engine::fold::AnyKind* kind(engine::core::StreamKind kind) const;
  const Describer* describer(engine::core::StreamKind kind) const;

 private:
  struct Entry {
    std::shared_ptr<const engine::fold::AnyKind> kind;
    std::unique_ptr<const Describer> describer;
  };
  std::array<Entry, 256> entries_;
};

}  // namespace sandglass::replay_tools::replay
