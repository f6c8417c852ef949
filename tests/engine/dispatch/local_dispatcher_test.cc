#include "engine/dispatch/local_dispatcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "engine/base/system_ports.h"
#include "engine/dispatch/function_activity.h"
#include "engine/dispatch/running_scope.h"
#include "tests/support/test_world.h"

namespace sandglass::engine::dispatch {
namespace {

using base::Code;
using core::Action;
using core::ActionKind;
using tests::test_payload;
using tests::test_stream;

class ManualClock final : public base::Clock {
 public:
  base::WallMs wall_ms() const override { return now_ms; }
  base::MonotonicNs monotonic_ns() const override { return now_ms * 1'000'000; }
  std::int64_t now_ms = 1000;
};

/// Keeps its calls until the test ends them.
class ManualActivity final : public core::Activity {
 public:
  void start(core::ActivityCall call, core::ActivityDone done) override {
    calls.push_back(std::move(call));
    dones.push_back(std::move(done));
  }
  void cancel(const core::StreamId&, const std::string& path, const core::Token&) override {
    cancelled.push_back(path);
  }
  std::vector<core::ActivityCall> calls;
  std::vector<core::ActivityDone> dones;
  std::vector<std::string> cancelled;
};

class ManualOperations final : public core::Operations {
 public:
  void reserve(core::ActivityCall call, core::ActivityDone done) override {
    take("reserve " + call.path, std::move(done));
  }
  void perform(core::ActivityCall call, std::int64_t permit_ms, core::ActivityDone done) override {
    take("perform " + call.path + " " + std::to_string(permit_ms), std::move(done));
  }
  void cancel(const core::StreamId&, const std::string& path, const core::Token&) override {
    asked.push_back("cancel " + path);
  }
  std::vector<std::string> asked;
  std::vector<core::ActivityDone> dones;

 private:
  void take(std::string what, core::ActivityDone done) {
    asked.push_back(std::move(what));
    dones.push_back(std::move(done));
  }
};

class Dispatch : public testing::Test {
 protected:
  Dispatch() {
    activity = std::make_shared<ManualActivity>();
    registry.add("echo", activity);
  }
  std::vector<core::FinishedAction> poll() {
    world.reads->poll();
    std::vector<core::FinishedAction> finished;
    dispatcher.poll(finished);
    return finished;
  }
  static Action action(std::uint32_t attempt = 1, std::string path = "p") {
    return {.name = "echo",
            .path = std::move(path),
            .token = {1, attempt, 1},
            .key = "key",
            .input_slot = test_payload("\"in\"").slot};
  }

  tests::World world;
  ManualClock clock;
  core::ActivityRegistry registry;
  std::shared_ptr<ManualActivity> activity;
  ManualOperations operations;
  core::StreamId stream = test_stream("a");
  LocalDispatcher dispatcher{{registry,
                              &operations,
                              *world.reads,
                              clock,
                              [](const core::StreamId&) { return core::DigestKey("t", "r"); },
                              {}}};
};

TEST_F(Dispatch, AnAnswerComesBackWithTokenAndDigest) {
  dispatcher.submit(stream, action());
  ASSERT_EQ(activity->calls.size(), 1U);
  EXPECT_EQ(activity->calls[0].input->bytes, "\"in\"");
  EXPECT_TRUE(poll().empty());
  activity->dones[0]({.bytes = "{\"a\":1}"});
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].stream, stream);
  EXPECT_EQ(finished[0].finished.token, action().token);
  EXPECT_EQ(finished[0].finished.result.slot->bytes, "{\"a\":1}");
  EXPECT_EQ(finished[0].finished.result.digest,
            core::DigestKey("t", "r").digest(core::Encoding::json, "{\"a\":1}"));
}

TEST_F(Dispatch, TheSameTokenAttachesAndALaterOneSupersedes) {
  dispatcher.submit(stream, action(1));
  dispatcher.submit(stream, action(1));
  EXPECT_EQ(activity->calls.size(), 1U);
  dispatcher.submit(stream, action(2));
  ASSERT_EQ(activity->calls.size(), 2U);
  EXPECT_EQ(activity->cancelled.size(), 1U);
  dispatcher.submit(stream, action(1));
  EXPECT_EQ(activity->calls.size(), 2U);
  activity->dones[0]({.bytes = "1"});
  activity->dones[1]({.bytes = "2"});
  activity->dones[1]({.bytes = "3"});
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.result.slot->bytes, "2");
  EXPECT_EQ(dispatcher.counters().dropped, 2U);
}

// FR-11: the attempt is over at its limit, whatever it does later.
TEST_F(Dispatch, AnAttemptIsCutAtItsLimit) {
  Action limited = action();
  limited.start_to_close_ms = 50;
  dispatcher.submit(stream, limited);
  clock.now_ms += 49;
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(dispatcher.next_due_ms(), clock.now_ms + 2) << "at the limit, rounded up";
  clock.now_ms += 1;
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::step_timed_out);
  EXPECT_TRUE(finished[0].finished.retryable);
  EXPECT_EQ(activity->cancelled.size(), 1U);
  activity->dones[0]({.bytes = "1"});
  EXPECT_TRUE(poll().empty());
}

TEST_F(Dispatch, NotBeforeWaitsAndACancelledOneIsNeverStarted) {
  Action later = action();
  later.not_before_ms = clock.now_ms + 100;
  dispatcher.submit(stream, later);
  Action cancelled = action(1, "q");
  cancelled.not_before_ms = clock.now_ms + 100;
  dispatcher.submit(stream, cancelled);
  cancelled.kind = ActionKind::cancel;
  dispatcher.submit(stream, cancelled);
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::cancelled);
  EXPECT_EQ(finished[0].finished.path, "q");
  clock.now_ms += 100;
  poll();
  ASSERT_EQ(activity->calls.size(), 1U);
  EXPECT_EQ(activity->calls[0].path, "p");
}

TEST_F(Dispatch, ACancelReachesARunningActivityWhoseAnswerStillCounts) {
  dispatcher.submit(stream, action());
  Action cancel = action();
  cancel.kind = ActionKind::cancel;
  dispatcher.submit(stream, cancel);
  EXPECT_EQ(activity->cancelled.size(), 1U);
  activity->dones[0]({.outcome = core::Outcome::not_done, .code = Code::cancelled});
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(Dispatch, AnUnknownActivityAndBadJsonAreFailures) {
  Action unknown = action();
  unknown.name = "nobody";
  dispatcher.submit(stream, unknown);
  auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::activity_unknown);
  EXPECT_EQ(finished[0].finished.side, core::FailureSide::platform);
  dispatcher.submit(stream, action(2));
  activity->dones[0]({.bytes = "{\"a\":1,\"a\":2}"});
  finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::payload_invalid);
}

// After recovery an action names its input; the bytes are in the record that scheduled it.
TEST_F(Dispatch, AnInputThatIsNotAtHandIsReadFromItsRecord) {
  ASSERT_TRUE(world.call_now(stream, tests::test_command(tests::Act{"p", "echo"})));
  world.settle();
  Action action = world.dispatcher->submitted[0].second;
  action.input_slot = nullptr;
  dispatcher.submit(stream, action);
  Action missing = action;
  missing.path = "q";
  missing.input.seq = 77;
  dispatcher.submit(stream, missing);
  std::vector<core::FinishedAction> finished;
  for (int i = 0; i < 100; ++i) {
    for (auto& one : poll()) finished.push_back(std::move(one));
  }
  ASSERT_EQ(activity->calls.size(), 1U);
  EXPECT_EQ(activity->calls[0].input->bytes, "\"p\"");
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::stream_damaged);
}

TEST_F(Dispatch, ReserveAndEffectGoToTheOperationsAndAreNotCutHere) {
  Action reserve = action();
  reserve.kind = ActionKind::reserve;
  dispatcher.submit(stream, reserve);
  operations.dones[0]({});
  ASSERT_EQ(poll().size(), 1U);
  Action effect = action();
  effect.kind = ActionKind::effect;
  effect.permit_ms = 500;
  effect.start_to_close_ms = 10;
  dispatcher.submit(stream, effect);
  clock.now_ms += 1000;
  EXPECT_TRUE(poll().empty());
  effect.kind = ActionKind::cancel;
  dispatcher.submit(stream, effect);
  EXPECT_EQ(operations.asked, (std::vector<std::string>{"reserve p", "perform p 500", "cancel p"}));
  operations.dones[1]({.outcome = core::Outcome::unknown, .code = Code::executor_lost});
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.kind, ActionKind::effect);
  EXPECT_EQ(finished[0].finished.outcome, core::Outcome::unknown);
}

TEST_F(Dispatch, AfterAbandoningLateAnswersAreDropped) {
  dispatcher.submit(stream, action());
  dispatcher.abandon_all();
  activity->dones[0]({.bytes = "1"});
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(dispatcher.under_way(), 0U);
}

/// Knows what runs where; what it suspects is up to the test.
class ManualRunning final : public core::Running {
 public:
  std::size_t enter(const core::RunningCode& code) override {
    const std::lock_guard lock(mutex);
    entered.push_back(code);
    ++inside;
    return 0;
  }
  void leave(std::size_t) override {
    const std::lock_guard lock(mutex);
    --inside;
  }
  bool is_suspect(const core::RunningCode& code) const override { return suspects.contains(code); }
  void clear(const core::RunningCode& code) override { suspects.erase(code); }

  std::mutex mutex;
  std::vector<core::RunningCode> entered;
  int inside = 0;
  std::set<core::RunningCode> suspects;
};

TEST_F(Dispatch, AStepIsMarkedWhereverItsCodeRunsAndASuspectIsNotStarted) {  // J13
  ManualRunning running;
  base::ThreadPool pool(1);
  GuardedRunner runner(pool, running);
  std::atomic<int> seen{0};
  registry.add("guarded", std::make_shared<FunctionActivity>(runner, [&](const core::ActivityCall&) {
                 const std::lock_guard lock(running.mutex);
                 seen = running.inside;
                 return core::ActivityResult{.bytes = "1"};
               }));
  LocalDispatcher guarded({registry,
                           nullptr,
                           *world.reads,
                           clock,
                           [](const core::StreamId&) { return core::DigestKey(); },
                           {},
                           &running});
  const auto code = core::RunningCode::of_step(stream, "p");
  Action one = action();
  one.name = "guarded";
  const auto run = [&] {
    guarded.submit(stream, one);
    std::vector<core::FinishedAction> finished;
    while (finished.empty()) guarded.poll(finished);
    return finished[0].finished;
  };
  EXPECT_EQ(run().outcome, core::Outcome::done);
  EXPECT_GE(seen, 1);
  EXPECT_EQ(running.entered, (std::vector<core::RunningCode>{code, code}))
      << "start, then on the pool's thread";
  running.suspects.insert(code);
  const auto refused = run();
  EXPECT_EQ(refused.code, core::kCrashesCode);
  EXPECT_NE(refused.message.find("p (guarded)"), std::string::npos) << refused.message;
  EXPECT_EQ(running.entered.size(), 2U);
  EXPECT_EQ(run().outcome, core::Outcome::done) << "resumed, it has its restarts again";
}

TEST_F(Dispatch, AFunctionRunsOnItsRunnerAndWakesTheLoop) {
  base::Wakeup wakeup;
  base::ThreadPool pool(2);
  registry.add("twice", std::make_shared<FunctionActivity>(pool, [](const core::ActivityCall& call) {
                 return core::ActivityResult{.bytes = "[" + call.input->bytes + "]"};
               }));
  LocalDispatcher threaded({registry, nullptr, *world.reads, clock,
                            [](const core::StreamId&) { return core::DigestKey(); }, wakeup.on_news()});
  for (int i = 0; i < 50; ++i) {
    Action one = action(1, std::to_string(i));
    one.name = "twice";
    threaded.submit(stream, one);
  }
  std::vector<core::FinishedAction> finished;
  while (finished.size() < 50) {
    wakeup.sleep(std::chrono::seconds(10));
    const std::size_t before = finished.size();
    threaded.poll(finished);
    ASSERT_GT(finished.size(), before) << "a wake-up without news after ten seconds";
  }
  EXPECT_EQ(finished[0].finished.result.slot->bytes, "[\"in\"]");
}

}  // namespace
}  // namespace sandglass::engine::dispatch
