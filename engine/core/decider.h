// Deciders: pure pairs of functions behind every stream kind.
//
//   struct SomeDecider {
//     using State = …;                       // a value; copyable; default = before the first event
//     using Event = std::variant<…>;
//     using Command = std::variant<…, ActionFinished, MessageReceived, TimerFired, ActivationFailed>;
//                                            // of the last four those that it has use for
//     static base::Status decide(const State&, const Command&, const DecideInput&, TurnWriter<Event>&);
//     static void evolve(State&, const Event&, const TurnInfo&);
//     static void pending(const State&, const DecideInput&, std::vector<Action>&);
//     static bool in_flight(const State&);   // pending() would give something, or a message must be answered
//     static bool owes_activation(const State&);   // optional: recovery activates the stream (J12)
//     static std::vector<Command> split(const Command&);   // optional: an activation's output, one command
//     each (J2)
//   };
//
// decide() may refuse (an Error; then nothing that it wrote counts) and never does I/O. evolve() cannot fail
// and never reads payload slots. Both are functions of their arguments alone: no clock, randomness, threads,
// logging, unordered iteration. What must happen at a time is a timer in the state, started through the
// TurnWriter. A timer that fires is ended by the framework, also if decide() refuses it; a refused message
// counts as consumed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/result.h"
#include "engine/core/action.h"
#include "engine/core/messages/message.h"
#include "engine/core/payload.h"
#include "engine/core/stored_record.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

/// A timer as a command. Timers are named by the decider; `due_ms` is what was asked for.
struct TimerFired {
  std::string key;
  std::int64_t due_ms = 0;
};

/// Workflow code gave no answer to what the decider has recorded: it broke its determinism, blocked, or its
/// output was refused or cannot be stored. The decider parks the stream as stuck, with this as the reason
/// (E5).
struct ActivationFailed {
  base::Error error;
};

/// `due_ms` is in the engine's time; of a key that is_calendar_timer() in what a clock on the wall shows.
struct TimerChange {
  std::string key;
  std::int64_t due_ms = 0;
};

/// Timers of deadlines that people were told: the machine's clock decides, also when somebody sets it.
inline constexpr char kCalendarTimer = '@';
inline bool is_calendar_timer(std::string_view key) {
  return key.starts_with(kCalendarTimer);
}

/// What a decision may know besides state and command.
struct DecideInput {
  StreamId stream;
  std::uint64_t seq = 0;    // of the record being made
  std::int64_t now_ms = 0;  // the engine's time; recorded as the record's time
  OwnerEpoch epoch = 0;
  std::int64_t calendar_ms = 0;  // what a clock on the wall shows; 0: the same as now_ms

  std::int64_t calendar() const { return calendar_ms != 0 ? calendar_ms : now_ms; }
};

/// The clear facts of the record that an event stands in; the same live and at replay.
struct TurnInfo {
  std::uint64_t seq = 0;
  std::int64_t time_ms = 0;
  OwnerEpoch epoch = 0;
};

/// Events of one record, of whichever kind.
struct EventBatch {
  virtual ~EventBatch() = default;
};
template <class Event>
struct Events final : EventBatch {
  std::vector<Event> items;
};

/// A stream's state, of whichever kind. Shared read-only with activators, hence immutable once shared.
struct StreamState {
  virtual ~StreamState() = default;
};
template <class State>
struct StateOf final : StreamState {
  State value;
};

/// A command, of whichever kind.
struct AnyCommand {
  virtual ~AnyCommand() = default;
};
template <class Command>
struct CommandOf final : AnyCommand {
  explicit CommandOf(Command command) : value(std::move(command)) {}
  Command value;
};
using CommandPtr = std::shared_ptr<const AnyCommand>;

template <class Command>
CommandPtr make_command(Command command) {
  return std::make_shared<const CommandOf<Command>>(std::move(command));
}

/// One record in the making: everything that a decision, and the activation that it caused, contributes.
struct Turn {
  /// Slots and messages that the record has from an earlier decision of the same turn: numbering goes on
  /// there.
  std::uint32_t first_slot = 0;
  std::uint32_t first_message = 0;
  std::shared_ptr<EventBatch> events;
  std::vector<SlotPtr> slots;
  std::vector<Message> messages;
  std::vector<TimerChange> timers_started;
  std::vector<TimerChange> timers_ended;
  std::vector<Action> actions;   // not stored
  std::optional<Payload> reply;  // stored as a slot; given to the caller and to whoever repeats the request
  bool activate = false;         // the stream's workflow code is to see the new events
};

/// The typed face of a Turn that a decider writes to.
template <class Event>
class TurnWriter {
 public:
  TurnWriter(Turn& turn, const DecideInput& input) : turn_(turn), input_(input) {
    if (!turn_.events) turn_.events = std::make_shared<Events<Event>>();
  }

  void emit(Event event) { batch().items.push_back(std::move(event)); }

  /// Puts the payload's bytes into a slot of this record. An empty payload gives an empty reference.
  PayloadRef store(const Payload& payload) {
    if (!payload) return {};
    turn_.slots.push_back(payload.slot);
    return {.seq = input_.seq,
            .slot = turn_.first_slot + static_cast<std::uint32_t>(turn_.slots.size() - 1),
            .size = static_cast<std::uint32_t>(payload.slot->bytes.size()),
            .digest = payload.digest};
  }

  void send(StreamId target, std::string correlation, MessageBody body, Payload payload = {},
            bool closing = false) {
    turn_.messages.push_back(
        {.source = input_.stream,
         .target = target,
         .source_seq = input_.seq,
         .index = turn_.first_message + static_cast<std::uint32_t>(turn_.messages.size()),
         .correlation = std::move(correlation),
         .closing = closing,
         .body = std::move(body),
         .payload = std::move(payload)});
  }

  void start_timer(std::string key, std::int64_t due_ms) {
    turn_.timers_started.push_back({std::move(key), due_ms});
  }
  /// In a record, ends come before starts: what this turn itself has started is taken back.
  void end_timer(std::string key, std::int64_t due_ms) {
    const auto taken_back = std::erase_if(turn_.timers_started, [&](const TimerChange& started) {
      return started.key == key && started.due_ms == due_ms;
    });
    if (taken_back == 0) turn_.timers_ended.push_back({std::move(key), due_ms});
  }
  void act(Action action) { turn_.actions.push_back(std::move(action)); }
  void reply(Payload payload) { turn_.reply = std::move(payload); }
  void activate() { turn_.activate = true; }

  const std::vector<Event>& events() const { return batch().items; }

 private:
  Events<Event>& batch() const { return static_cast<Events<Event>&>(*turn_.events); }

  Turn& turn_;
  const DecideInput& input_;
};

}  // namespace sandglass::engine::core
