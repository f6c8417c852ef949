// A kit for testing workflows: runs one against the run decider, without shard, threads or waiting.
// Activities and operations are functions that the test gives; time skips to the next timer when nothing else
// happens.
//
//   TestRun run(registry, {.workflow = "ship", .input = {{"order", 7}}});
//   run.activity("warehouse.pack", [](const Json& input) -> Result<Json> { … });
//   run.play();
//   EXPECT_EQ(run.result(), Json("shipped"));
//   EXPECT_EQ(run.check_replay(), "");      // each prefix of the history, rebuilt from nothing, adds nothing
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/ports/activator.h"
#include "engine/core/ports/activity.h"
#include "engine/run/decider.h"
#include "engine/workflow/activator.h"
#include "engine/workflow/context.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::workflow {

struct TestRunOptions {
  std::string workflow;
  std::string version;  // empty: the latest
  Json input = nullptr;
  std::int64_t start_ms = 1'700'000'000'000;
  /// Actions end in an order drawn from this seed; 0: in the order in which they were asked for.
  std::uint32_t seed = 0;
  /// Every activation rebuilds the coroutine from history (J32).
  bool evict_everything = false;
};

class TestRun {
 public:
  using Activity = std::function<Result<Json>(const Json& input)>;
  /// The whole answer: outcome, side, whether it may be repeated.
  using RawActivity = std::function<core::ActivityResult(const core::Action& action, const Json& input)>;
  using Peer = std::function<void(const core::Message& message)>;

  TestRun(const Registry& registry, TestRunOptions options);

  // The world. Also for operations, under the tool's name; an error of theirs is "not done, may be repeated".
  void activity(const std::string& name, Activity code);
  void raw_activity(const std::string& name, RawActivity code);
  /// Its calls stay open until finish_held().
  void hold(const std::string& name) { held_names_.insert(name); }
  /// Sees every message that the run sends; may answer with deliver().
  void on_message(Peer peer) { peer_ = std::move(peer); }

  // What happens to the run.

  /// Until it has ended, or nothing can happen any more without the test: no action, timer or message is
  /// left.
  void play();
  /// One action, message or timer. False: nothing is left.
  bool play_one();
  base::Status give(run::Command command);
  base::Status signal(const std::string& name, const Json& payload = nullptr);
  base::Status cancel() { return give(run::Cancel{"test"}); }
  base::Status resume() { return give(run::Resume{}); }
  void deliver(const core::StreamId& source, std::string correlation, core::MessageBody body,
               const Json& payload = nullptr);
  /// What a query answers now; nothing of it is recorded.
  Result<Json> query(const std::string& name, const Json& input = nullptr);
  /// The update's number, once it is accepted; its answer comes with play().
  Result<std::uint64_t> update(const std::string& name, const Json& input = nullptr);
  /// Of an update that was answered; `unavailable` before.
  Result<Json> update_result(std::uint64_t number) const;
  bool finish_held(const std::string& path, const Result<Json>& answer);
  /// The process ends and another one, with this registry, takes over: coroutines are gone, what was under
  /// way starts again.
  void restart(const Registry& registry);
  void advance(std::int64_t duration_ms) { now_ms_ += duration_ms; }

  // What came of it.

  const run::State& state() const { return state_->value; }
  run::RunStatus status() const { return state().status; }
  /// Of a completed run the result; else an error with the code of its end, or `unavailable` while it is
  /// open.
  Result<Json> result() const;
  std::int64_t now_ms() const { return now_ms_; }
  const std::vector<core::TurnView>& history() const { return history_; }
  std::vector<run::Event> events() const;
  template <class E>
  std::size_t count() const {
    std::size_t found = 0;
    for (const run::Event& event : events()) found += std::holds_alternative<E>(event);
    return found;
  }
  std::uint64_t activations() const { return activations_; }
  std::vector<std::string> held_paths() const;

  /// Empty if every prefix (of long histories: the whole), rebuilt, repeats itself and adds nothing.
  std::string check_replay() const;

 private:
  using StatePtr = std::shared_ptr<core::StateOf<run::State>>;

  base::Status decide_part(const run::Command& command, core::TurnView& record, bool& activate);
  void activate(core::TurnView& record, std::size_t shown);
  core::ActivationRequest request_now();
  Result<std::string> ask(core::Question question);
  void finish(const core::Action& action, core::ActivityResult answer);
  void carry_out(const core::Action& action);
  Json input_of(const core::Action& action) const;

  const Registry* registry_;
  TestRunOptions options_;
  core::StreamId stream_;
  core::DigestKey digest_key_;
  std::unique_ptr<InlineActivator> activator_;
  StatePtr state_;
  std::vector<StatePtr> states_;  // after each record
  std::vector<core::TurnView> history_;
  std::uint64_t coroutine_head_ = 0;
  std::uint64_t activations_ = 0;
  core::OwnerEpoch epoch_ = 1;
  std::int64_t now_ms_;
  std::mt19937 random_;

  std::map<std::string, RawActivity> activities_;
  std::set<std::string> held_names_;
  std::vector<core::Action> held_;
  Peer peer_;
  std::deque<core::Action> actions_;
  std::deque<core::Message> messages_;
  std::multimap<std::int64_t, std::string> timers_;
};

}  // namespace sandglass::engine::workflow
