// A stream kind, type-erased: decider, codec and view of one StreamKind. Shards, recovery, debugger, auditor
// and simulator all fold through these (DESIGN §1).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/codec/event.h"
#include "engine/core/decider.h"
#include "engine/core/stored_record.h"
#include "engine/view/view.h"

namespace sandglass::engine::fold {

using codec::EncodedEvent;

/// What a kind's view may write besides the tables that the framework derives from every record.
using ViewChanges = std::vector<view::ViewChange>;

/// Thread rule: stateless, callable from any thread.
class AnyKind {
 public:
  virtual ~AnyKind() = default;
  virtual core::StreamKind kind() const = 0;
  /// Whether an activator runs workflow code for this kind.
  virtual bool activates() const = 0;

  virtual std::shared_ptr<core::StreamState> initial() const = 0;
  virtual std::shared_ptr<core::StreamState> copy(const core::StreamState& state) const = 0;
  virtual base::Status decide(const core::StreamState& state, const core::AnyCommand& command,
                              const core::DecideInput& input, core::Turn& turn) const = 0;
  /// Applies events [from, end) of the batch.
  virtual void evolve(core::StreamState& state, const core::EventBatch& events, std::size_t from,
                      const core::TurnInfo& info) const = 0;
  virtual void pending(const core::StreamState& state, const core::DecideInput& input,
                       std::vector<core::Action>& actions) const = 0;
  virtual bool in_flight(const core::StreamState& state) const = 0;
  /// Workflow code has not (demonstrably) seen everything that is recorded: activate at recovery.
  virtual bool owes_activation(const core::StreamState& state) const = 0;

  virtual core::CommandPtr command_from(core::ActionFinished finished) const = 0;
  virtual core::CommandPtr command_from(core::MessageReceived message) const = 0;
  virtual core::CommandPtr command_from(core::TimerFired timer) const = 0;
  virtual core::CommandPtr command_from(core::ActivationFailed failed) const = 0;
  /// The parts of an activation's output, to be decided one after another into as many records as they need
  /// (J2). Empty: it cannot be cut.
  virtual std::vector<core::CommandPtr> split(const core::AnyCommand& command) const = 0;

  virtual std::size_t event_count(const core::EventBatch& events) const = 0;
  virtual std::vector<EncodedEvent> encode(const core::EventBatch& events) const = 0;
  virtual base::Result<std::shared_ptr<core::EventBatch>> decode(
      const std::vector<EncodedEvent>& events) const = 0;
  virtual std::string encode_state(const core::StreamState& state) const = 0;
  virtual base::Result<std::shared_ptr<core::StreamState>> decode_state(std::string_view bytes) const = 0;

  /// Whether these events can change rows of the kind's own tables: if not, project() is not called for their
  /// record and no copy of the state before it is kept (J9).
  virtual bool projects(const core::EventBatch& events) const = 0;
  /// Rows of the kind's own tables (visibility …) for one record; functions of states before and after it
  /// alone.
  virtual void project(const core::StreamState& before, const core::StreamState& after,
                       const core::StreamId& stream, core::PartitionId partition,
                       ViewChanges& changes) const = 0;
  /// Rows that show what stands in slots of one record; `after` is the state behind it.
  virtual void project_content(const core::EventBatch& events, const std::vector<core::SlotPtr>& slots,
                               const core::StreamState& after, const core::StreamId& stream,
                               core::PartitionId partition, ViewChanges& changes) const = 0;
};

/// A view without tables of its own.
struct NoView {
  template <class State>
  static void project(const State&, const State&, const core::StreamId&, ViewChanges&) {}
};

/// Makes an AnyKind from a decider (core/decider.h) and a codec:
///   struct SomeCodec {
///     static EncodedEvent encode(const Event&);
///     static base::Result<Event> decode(const EncodedEvent&);       // event_unknown for what is newer
///     static std::string encode_state(const State&);
///     static base::Result<State> decode_state(std::string_view);
///   };
/// and a view: struct SomeView {
///     static void project(before, after, stream, ViewChanges&);   // or with the partition after the stream
///     static bool projects(const Event&);   // optional: false for events that never change its rows
///     static void project_content(const Event&, slots, after, stream, partition, ViewChanges&);   //
///     optional
///   };
template <core::StreamKind kKind, bool kActivates, class Decider, class Codec, class ViewOf>
class Kind final : public AnyKind {
 public:
  using State = typename Decider::State;
  using Event = typename Decider::Event;
  using Command = typename Decider::Command;

  core::StreamKind kind() const override { return kKind; }
  bool activates() const override { return kActivates; }
  std::shared_ptr<core::StreamState> initial() const override {
    return std::make_shared<core::StateOf<State>>();
  }
  std::shared_ptr<core::StreamState> copy(const core::StreamState& state) const override {
    auto made = std::make_shared<core::StateOf<State>>();
    made->value = value(state);
    return made;
  }
  base::Status decide(const core::StreamState& state, const core::AnyCommand& command,
                      const core::DecideInput& input, core::Turn& turn) const override {
    core::TurnWriter<Event> writer(turn, input);
    return Decider::decide(value(state), static_cast<const core::CommandOf<Command>&>(command).value, input,
                           writer);
  }
  void evolve(core::StreamState& state, const core::EventBatch& events, std::size_t from,
              const core::TurnInfo& info) const override {
    const auto& all = items(events);
    for (std::size_t i = from; i < all.size(); ++i) {
      Decider::evolve(static_cast<core::StateOf<State>&>(state).value, all[i], info);
    }
  }
  void pending(const core::StreamState& state, const core::DecideInput& input,
               std::vector<core::Action>& actions) const override {
    Decider::pending(value(state), input, actions);
  }
  bool in_flight(const core::StreamState& state) const override { return Decider::in_flight(value(state)); }
  bool owes_activation(const core::StreamState& state) const override {
    if constexpr (requires { Decider::owes_activation(value(state)); }) {
      return Decider::owes_activation(value(state));
    } else {
      return false;
    }
  }

  core::CommandPtr command_from(core::ActionFinished finished) const override {
    return make(std::move(finished));
  }
  core::CommandPtr command_from(core::MessageReceived message) const override {
    return make(std::move(message));
  }
  core::CommandPtr command_from(core::TimerFired timer) const override { return make(std::move(timer)); }
  core::CommandPtr command_from(core::ActivationFailed failed) const override {
    return make(std::move(failed));
  }
  std::vector<core::CommandPtr> split(const core::AnyCommand& command) const override {
    std::vector<core::CommandPtr> parts;
    if constexpr (requires(const Command& whole) { Decider::split(whole); }) {
      for (Command& part : Decider::split(static_cast<const core::CommandOf<Command>&>(command).value)) {
        parts.push_back(core::make_command<Command>(std::move(part)));
      }
    }
    return parts;
  }

  std::size_t event_count(const core::EventBatch& events) const override { return items(events).size(); }
  std::vector<EncodedEvent> encode(const core::EventBatch& events) const override {
    std::vector<EncodedEvent> encoded;
    for (const Event& event : items(events)) encoded.push_back(Codec::encode(event));
    return encoded;
  }
  base::Result<std::shared_ptr<core::EventBatch>> decode(
      const std::vector<EncodedEvent>& events) const override {
    auto batch = std::make_shared<core::Events<Event>>();
    for (const EncodedEvent& encoded : events) {
      auto event = Codec::decode(encoded);
      if (!event) return std::unexpected(event.error());
      batch->items.push_back(std::move(*event));
    }
    return batch;
  }
  std::string encode_state(const core::StreamState& state) const override {
    return Codec::encode_state(value(state));
  }
  base::Result<std::shared_ptr<core::StreamState>> decode_state(std::string_view bytes) const override {
    auto state = Codec::decode_state(bytes);
    if (!state) return std::unexpected(state.error());
    auto made = std::make_shared<core::StateOf<State>>();
    made->value = std::move(*state);
    return made;
  }
  bool projects(const core::EventBatch& events) const override {
    if constexpr (std::is_same_v<ViewOf, NoView>) {
      return false;
    } else if constexpr (requires(const Event& event) { ViewOf::projects(event); }) {
      return std::ranges::any_of(items(events), [](const Event& event) { return ViewOf::projects(event); });
    } else {
      return true;
    }
  }
  void project(const core::StreamState& before, const core::StreamState& after, const core::StreamId& stream,
               core::PartitionId partition, ViewChanges& changes) const override {
    if constexpr (requires { ViewOf::project(value(before), value(after), stream, partition, changes); }) {
      ViewOf::project(value(before), value(after), stream, partition, changes);
    } else {
      ViewOf::project(value(before), value(after), stream, changes);
    }
  }
  void project_content(const core::EventBatch& events, const std::vector<core::SlotPtr>& slots,
                       const core::StreamState& after, const core::StreamId& stream,
                       core::PartitionId partition, ViewChanges& changes) const override {
    if constexpr (requires(const Event& event) {
                    ViewOf::project_content(event, slots, value(after), stream, partition, changes);
                  }) {
      for (const Event& event : items(events)) {
        ViewOf::project_content(event, slots, value(after), stream, partition, changes);
      }
    }
  }

 private:
  static const State& value(const core::StreamState& state) {
    return static_cast<const core::StateOf<State>&>(state).value;
  }
  static const std::vector<Event>& items(const core::EventBatch& events) {
    return static_cast<const core::Events<Event>&>(events).items;
  }
  /// A decider that has no use for such a command refuses it at compile time by not listing it; it is then
  /// dropped with a null command, which the shard treats as "no decision".
  template <class From>
  static core::CommandPtr make(From from) {
    if constexpr (requires { Command{std::move(from)}; }) {
      return core::make_command<Command>(Command{std::move(from)});
    } else {
      return nullptr;
    }
  }
};

/// The kinds that a process knows. Filled by the composition root before anything runs, read-only afterwards.
class Registry {
 public:
  void add(std::shared_ptr<const AnyKind> kind) {
    kinds_[static_cast<std::size_t>(kind->kind())] = std::move(kind);
  }
  /// Null for an unknown kind.
  const AnyKind* find(core::StreamKind kind) const { return kinds_[static_cast<std::size_t>(kind)].get(); }

 private:
  std::array<std::shared_ptr<const AnyKind>, 256> kinds_;
};

}  // namespace sandglass::engine::fold
