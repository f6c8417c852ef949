// A stream kind for tests (StreamKind::test): small, but with everything that a kind can do: events, replies,
// refusals, timers, messages, actions, activation, a table of its own.
#pragma once

#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/codec/snapshot.h"
#include "engine/core/decider.h"
#include "engine/fold/stream_kind.h"
#include "engine/view/keys.h"

namespace sandglass::tests {

namespace core = engine::core;
namespace base = engine::base;

enum class TestEventType : std::uint32_t {
  added = 1,      // text: what; number: how much
  woken = 2,      // workflow code is to see this
  scheduled = 3,  // text: path of an action
  finished = 4,   // text: path
  timer_set = 5,  // text: key; number: due
  timer_gone = 6,
  fired = 7,
  received = 8,  // text: "source/seq/index"
  stuck = 9,     // number: code
};

struct TestEvent {
  TestEventType type = TestEventType::added;
  std::string text;
  std::int64_t number = 0;
  std::uint64_t epoch = 0;  // scheduled: of the token

  template <class Archive>
  void serialize(Archive& archive) {
    archive(type, text, number, epoch);
  }
  friend bool operator==(const TestEvent&, const TestEvent&) = default;
};

struct TestState {
  std::int64_t sum = 0;
  std::vector<std::string> log;  // every event, in order, as text
  std::map<std::string, std::int64_t> timers;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> actions;  // path → token epoch, counter
  std::int64_t stuck = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(sum, log, timers, actions, stuck);
  }
  friend bool operator==(const TestState&, const TestState&) = default;
};

// Commands.
struct Add {
  std::string what;
  std::int64_t amount = 0;
  std::size_t slot_bytes = 0;  // stores a payload of that size
};
struct Refuse {};
struct Wake {
  std::string text;
};
struct SetTimer {
  std::string key;
  std::int64_t due_ms = 0;
};
struct EndTimer {
  std::string key;
};
struct Send {
  core::StreamId target;
  std::string correlation;
  bool closing = false;
};
struct Act {
  std::string path;
  std::string activity;
};
/// What workflow code answers: several of the above in one.
struct Output;
using TestCommand =
    std::variant<Add, Refuse, Wake, SetTimer, EndTimer, Send, Act, std::shared_ptr<const Output>,
                 core::ActionFinished, core::MessageReceived, core::TimerFired, core::ActivationFailed>;
struct Output {
  std::vector<TestCommand> parts;
};

inline core::Payload test_payload(std::string bytes) {
  return core::DigestKey("tenant", "root").make(core::Encoding::json, std::move(bytes));
}

struct TestDecider {
  using State = TestState;
  using Event = TestEvent;
  using Command = TestCommand;
  using Writer = core::TurnWriter<Event>;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             Writer& turn) {
    return std::visit([&](const auto& one) { return on(state, one, input, turn); }, command);
  }

  static void evolve(State& state, const Event& event, const core::TurnInfo& info) {
    state.log.push_back(std::to_string(static_cast<int>(event.type)) + ":" + event.text);
    switch (event.type) {
      case TestEventType::added:
        state.sum += event.number;
        break;
      case TestEventType::scheduled:
        state.actions[event.text] = {event.epoch, info.seq};
        break;
      case TestEventType::finished:
        state.actions.erase(event.text);
        break;
      case TestEventType::timer_set:
        state.timers[event.text] = event.number;
        break;
      case TestEventType::timer_gone:
      case TestEventType::fired:
        state.timers.erase(event.text);
        break;
      case TestEventType::stuck:
        state.stuck = event.number;
        break;
      case TestEventType::woken:
      case TestEventType::received:
        break;
    }
  }

  static void pending(const State& state, const core::DecideInput& input,
                      std::vector<core::Action>& actions) {
    for (const auto& [path, token] : state.actions) {
      actions.push_back(action(input.stream, path, "echo", {token.first, 1, token.second}));
    }
  }
  static bool in_flight(const State& state) { return !state.actions.empty(); }

  static std::vector<Command> split(const Command& command) {
    const auto* output = std::get_if<std::shared_ptr<const Output>>(&command);
    return output == nullptr ? std::vector<Command>{} : (*output)->parts;
  }

 private:
  static core::Action action(const core::StreamId& stream, const std::string& path, const std::string& name,
                             core::Token token) {
    return {.name = name, .path = path, .token = token, .key = stream.text() + "/" + path};
  }
  static base::Status on(const State& state, const Add& add, const core::DecideInput&, Writer& turn) {
    turn.emit({TestEventType::added, add.what, add.amount});
    if (add.slot_bytes > 0) turn.store(test_payload(std::string(add.slot_bytes, 'x')));
    turn.reply(test_payload(std::to_string(state.sum + add.amount)));
    return {};
  }
  static base::Status on(const State&, const Refuse&, const core::DecideInput&, Writer&) {
    return base::fail(base::Code::invalid_argument, "refused on request");
  }
  static base::Status on(const State&, const Wake& wake, const core::DecideInput&, Writer& turn) {
    turn.emit({TestEventType::woken, wake.text});
    turn.activate();
    return {};
  }
  static base::Status on(const State&, const SetTimer& timer, const core::DecideInput&, Writer& turn) {
    turn.emit({TestEventType::timer_set, timer.key, timer.due_ms});
    turn.start_timer(timer.key, timer.due_ms);
    return {};
  }
  static base::Status on(const State& state, const EndTimer& timer, const core::DecideInput&, Writer& turn) {
    const auto found = state.timers.find(timer.key);
    if (found == state.timers.end()) return base::fail(base::Code::not_found, "no such timer");
    turn.emit({TestEventType::timer_gone, timer.key});
    turn.end_timer(timer.key, found->second);
    return {};
  }
  static base::Status on(const State&, const Send& send, const core::DecideInput&, Writer& turn) {
    turn.emit({TestEventType::added, "sent " + send.correlation, 0});
    turn.send(send.target, send.correlation, core::LeaseCancelled{}, test_payload("\"hello\""), send.closing);
    return {};
  }
  static base::Status on(const State&, const Act& act, const core::DecideInput& input, Writer& turn) {
    turn.emit({TestEventType::scheduled, act.path, 0, input.epoch});
    core::Action made = action(input.stream, act.path, act.activity, {input.epoch, 1, input.seq});
    const core::Payload payload = test_payload("\"" + act.path + "\"");
    made.input = turn.store(payload);
    made.input_slot = payload.slot;
    turn.act(std::move(made));
    return {};
  }
  static base::Status on(const State& state, const std::shared_ptr<const Output>& output,
                         const core::DecideInput& input, Writer& turn) {
    for (const TestCommand& part : output->parts) {
      if (auto made = decide(state, part, input, turn); !made) return made;
    }
    return {};
  }
  static base::Status on(const State& state, const core::ActionFinished& finished, const core::DecideInput&,
                         Writer& turn) {
    const auto open = state.actions.find(finished.path);
    if (open == state.actions.end() || open->second.second != finished.token.counter) {
      return base::fail(base::Code::stale_completion, "no such action is open");
    }
    turn.emit({TestEventType::finished, finished.path});
    turn.store(finished.result);
    turn.activate();
    return {};
  }
  static base::Status on(const State&, const core::MessageReceived& received, const core::DecideInput&,
                         Writer& turn) {
    const core::Message& message = received.message;
    if (message.correlation == "unwanted")
      return base::fail(base::Code::invalid_argument, "unwanted message");
    turn.emit({TestEventType::received, message.source.text() + "/" + message.correlation});
    return {};
  }
  static base::Status on(const State& state, const core::TimerFired& fired, const core::DecideInput&,
                         Writer& turn) {
    if (!state.timers.contains(fired.key)) return base::fail(base::Code::not_found, "no such timer");
    turn.emit({TestEventType::fired, fired.key});
    turn.activate();
    return {};
  }
  static base::Status on(const State&, const core::ActivationFailed& failed, const core::DecideInput&,
                         Writer& turn) {
    turn.emit({TestEventType::stuck, failed.error.message, static_cast<std::int64_t>(failed.error.code)});
    return {};
  }
};

struct TestCodec {
  static engine::codec::EncodedEvent encode(const TestEvent& event) {
    return {static_cast<std::uint32_t>(event.type), 1, engine::codec::save_snapshot(1, event)};
  }
  static base::Result<TestEvent> decode(const engine::codec::EncodedEvent& encoded) {
    if (encoded.type == 0 || encoded.type > 9 || encoded.version != 1) {
      return base::fail(base::Code::event_unknown, "test event type " + std::to_string(encoded.type));
    }
    auto event = engine::codec::load_snapshot<TestEvent>(1, encoded.body);
    if (!event) return base::fail(base::Code::record_damaged, "test event: " + event.error().message);
    return event;
  }
  static std::string encode_state(const TestState& state) { return engine::codec::save_snapshot(1, state); }
  static base::Result<TestState> decode_state(std::string_view bytes) {
    return engine::codec::load_snapshot<TestState>(1, bytes);
  }
};

/// One visibility row a stream: its sum.
struct TestView {
  static bool projects(const TestEvent& event) { return event.type == TestEventType::added; }
  static void project(const TestState& before, const TestState& after, const core::StreamId& stream,
                      engine::fold::ViewChanges& changes) {
    if (before.sum == after.sum) return;
    changes.push_back(
        {engine::view::index_key(0, engine::view::Index::visibility, 0, stream), std::to_string(after.sum)});
  }
};

using TestKind = engine::fold::Kind<core::StreamKind::test, true, TestDecider, TestCodec, TestView>;

inline core::StreamId test_stream(std::string_view name) {
  return core::StreamId::named(core::StreamKind::test, name);
}
inline const TestState& test_state(const core::StreamState& state) {
  return static_cast<const core::StateOf<TestState>&>(state).value;
}
template <class Command>
core::CommandPtr test_command(Command command) {
  return core::make_command<TestCommand>(TestCommand{std::move(command)});
}
inline core::CommandPtr test_output(std::vector<TestCommand> parts) {
  return test_command(std::shared_ptr<const Output>(std::make_shared<Output>(Output{std::move(parts)})));
}

}  // namespace sandglass::tests
