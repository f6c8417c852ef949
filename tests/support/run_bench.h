// One run under test, without a shard: commands go through decide and evolve, events and state through the
// codec and back (the replay check of every test: encode(evolve(s, e)) = encode(evolve(decode(encode(s)),
// decode(encode(e))))).
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/codec/codec.h"
#include "engine/run/decider.h"

namespace sandglass::tests {

namespace run = engine::run;
namespace core = engine::core;
namespace base = engine::base;

class RunBench {
 public:
  core::StreamId stream = core::StreamId::named(core::StreamKind::run, "under test");
  core::DigestKey digest_key{"tenant key", stream.text()};
  std::int64_t now_ms = 1'000'000;
  core::OwnerEpoch epoch = 1;
  run::State state;
  std::uint64_t seq = 0;

  // Everything that was let out.
  std::vector<run::Event> events;                   // of all records
  std::vector<run::Event> newest;                   // of the newest one
  std::vector<core::Action> actions;                // of the newest one
  std::vector<core::Action> all_actions;            // of all records
  std::vector<core::Message> messages;              // of the newest one
  std::vector<core::SlotPtr> slots;                 // of the newest one
  bool activates = false;                           // the newest one asked for an activation
  std::multimap<std::int64_t, std::string> timers;  // due → key, as the due index would have them

  core::Payload json(std::string text) const {
    return digest_key.make(core::Encoding::json, std::move(text));
  }

  base::Status give(run::Command command) {
    core::Turn turn;
    const core::DecideInput input{stream, seq + 1, now_ms, epoch};
    core::TurnWriter<run::Event> out(turn, input);
    const base::Status status = run::RunDecider::decide(state, command, input, out);
    newest.clear(), actions.clear(), messages.clear(), slots.clear();
    activates = false;
    if (!status) return status;
    const auto& made = out.events();
    if (made.empty() && turn.messages.empty() && turn.timers_started.empty() && turn.timers_ended.empty())
      return status;
    ++seq;
    for (const run::Event& event : made) evolve_both_ways(event, {seq, now_ms, epoch});
    newest = made;
    events.insert(events.end(), made.begin(), made.end());
    actions = turn.actions;
    all_actions.insert(all_actions.end(), actions.begin(), actions.end());
    messages = turn.messages;
    slots = turn.slots;
    activates = turn.activate;
    for (const auto& timer : turn.timers_ended) end_timer(timer.key, timer.due_ms);
    for (const auto& timer : turn.timers_started) timers.emplace(timer.due_ms, timer.key);
    return status;
  }

  base::Status start(std::string input = "{}") {
    return give(run::StartRun{.workflow = "w",
                              .version = "1",
                              .tenant = "t",
                              .user = "u",
                              .session = "s",
                              .input = json(std::move(input))});
  }
  base::Status apply(std::vector<run::WorkflowCommand> commands) {
    return give(run::ApplyActivation{.commands = std::move(commands)});
  }
  /// Lets the due timers fire, one record each, until `until_ms`.
  void pass_time(std::int64_t until_ms) {
    while (!timers.empty() && timers.begin()->first <= until_ms) {
      const auto [due_ms, key] = *timers.begin();
      timers.erase(timers.begin());
      now_ms = std::max(now_ms, due_ms);
      (void)give(core::TimerFired{key, due_ms});
    }
    now_ms = std::max(now_ms, until_ms);
  }
  /// Another owner: what is open is started again by pending().
  std::vector<core::Action> recover() {
    ++epoch;
    std::vector<core::Action> again;
    run::RunDecider::pending(state, {stream, seq + 1, now_ms, epoch}, again);
    return again;
  }

  core::ActionFinished finished(const core::Action& action, core::Outcome outcome = core::Outcome::done,
                                std::string result = "{}") const {
    core::ActionFinished answer{
        .kind = action.kind, .path = action.path, .token = action.token, .outcome = outcome};
    if (outcome == core::Outcome::done) answer.result = json(std::move(result));
    return answer;
  }
  core::ActionFinished failed(const core::Action& action, base::Code code, bool retryable,
                              core::Outcome outcome = core::Outcome::not_done) const {
    core::ActionFinished answer = finished(action, outcome);
    answer.result = {};
    answer.code = code;
    answer.retryable = retryable;
    answer.message = "it did not work";
    return answer;
  }

  template <class E>
  std::size_t count() const {
    std::size_t found = 0;
    for (const auto& event : events) found += std::holds_alternative<E>(event);
    return found;
  }
  template <class E>
  const E* last() const {
    for (auto event = events.rbegin(); event != events.rend(); ++event) {
      if (const E* one = std::get_if<E>(&*event)) return one;
    }
    return nullptr;
  }

 private:
  void evolve_both_ways(const run::Event& event, const core::TurnInfo& info) {
    const auto reread = run::codec::RunCodec::decode_state(run::codec::RunCodec::encode_state(state));
    ASSERT_TRUE(reread.has_value());
    ASSERT_EQ(*reread, state);
    const auto decoded = run::codec::RunCodec::decode(run::codec::RunCodec::encode(event));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    ASSERT_EQ(*decoded, event) << run::codec::event_name(event);
    run::State replayed = *reread;
    run::RunDecider::evolve(replayed, *decoded, info);
    run::RunDecider::evolve(state, event, info);
    ASSERT_EQ(run::codec::RunCodec::encode_state(replayed), run::codec::RunCodec::encode_state(state))
        << run::codec::event_name(event);
  }
  void end_timer(const std::string& key, std::int64_t due_ms) {
    const auto [first, last] = timers.equal_range(due_ms);
    for (auto timer = first; timer != last; ++timer) {
      if (timer->second == key) {
        timers.erase(timer);
        return;
      }
    }
    ADD_FAILURE() << "a timer is ended that does not run: " << key << " at " << due_ms;
  }
};

}  // namespace sandglass::tests
