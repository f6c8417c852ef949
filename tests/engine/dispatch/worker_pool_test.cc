// Steps in the hands of workers: the real dispatcher and pool, under a clock that the test moves; only the
// connections are the test's.
#include "engine/dispatch/worker_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/base/log.h"
#include "engine/dispatch/local_dispatcher.h"
#include "tests/support/seeded_random.h"
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
  std::int64_t now_ms = 100'000;
};

/// What the engine said to one connection.
class Link final : public WorkerLink {
 public:
  void say(EngineSays words) override {
    for (auto& task : words.tasks) tasks.push_back(std::move(task));
    for (auto& id : words.cancelled) cancelled.push_back(id.path);
    for (auto& id : words.settled) settled.push_back(id.path);
    for (auto& id : words.gone) gone.push_back(id.path);
  }
  void close(base::Error why) override { closed = why.code; }
  std::vector<WorkerTask> tasks;
  std::vector<std::string> cancelled, settled, gone;
  std::optional<Code> closed;
};

using Paths = std::vector<std::string>;

class Workers : public testing::Test {
 protected:
  struct Worker {
    std::shared_ptr<Link> link = std::make_shared<Link>();
    WorkerPool::SessionId session = 0;
  };

  Workers() {
    base::set_log_level(base::LogLevel::error);
    open({});
  }

  /// Another engine on the same journal: nothing of the former one is left.
  void open(WorkerSettings settings) {
    dispatcher.reset();
    pool = std::make_unique<WorkerPool>(clock, std::move(settings));
    dispatcher = std::make_unique<LocalDispatcher>(
        DispatchPorts{.activities = registry,
                      .reads = *world.reads,
                      .clock = clock,
                      .digest_key = [](const core::StreamId&) { return core::DigestKey("t", "r"); },
                      .on_news = {},
                      .workers = pool.get()});
    pool->opened();
  }
  Worker connect(std::string name, std::uint32_t capacity = 1, std::vector<TaskId> held = {},
                 std::string tenant = "t") {
    Worker worker;
    worker.session = pool->attach(worker.link, {.worker = std::move(name),
                                                .tenant = std::move(tenant),
                                                .queues = {"w"},
                                                .capacity = capacity,
                                                .held = std::move(held)});
    poll();
    return worker;
  }
  Action action(std::string path, std::uint64_t epoch = 1) const {
    return {.name = "w",
            .path = std::move(path),
            .token = {epoch, 1, 7},
            .key = "key",
            .input_slot = test_payload("\"in\"").slot,
            .tenant = "t",
            .scheduled_ms = clock.now_ms};
  }
  std::vector<core::FinishedAction> poll() {
    world.reads->poll();
    std::vector<core::FinishedAction> finished;
    dispatcher->poll(finished);
    dispatcher->poll(finished);  // what became free is handed out
    return finished;
  }
  std::vector<core::FinishedAction> answer(const Worker& worker, const TaskId& id, std::string result = "1") {
    WorkerSays words;
    words.answers.push_back({id, {.bytes = std::move(result)}});
    pool->hear(worker.session, std::move(words));
    return poll();
  }
  static Paths out(const Worker& worker) {
    Paths paths;
    for (const auto& task : worker.link->tasks) paths.push_back(task.id.path);
    return paths;
  }
  std::string where(const std::string& path) const {
    const auto found = dispatcher->whereabouts(stream, path);
    return found ? found->text : "";
  }

  tests::World world;
  ManualClock clock;
  core::ActivityRegistry registry;
  core::StreamId stream = test_stream("a");
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<LocalDispatcher> dispatcher;
};

TEST_F(Workers, AStepWithoutAWorkerSaysSoAndEndsAtItsLimit) {  // FR-58, E14
  Action patient = action("a");
  patient.schedule_to_start_ms = 500;
  dispatcher->submit(stream, patient);
  dispatcher->submit(stream, action("b"));
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(where("a"), "waiting for a worker of w");
  const auto queues = pool->queues();
  ASSERT_EQ(queues.size(), 1U);
  EXPECT_EQ(queues[0].waiting, 2U);
  EXPECT_EQ(queues[0].workers, 0U);
  EXPECT_EQ(queues[0].oldest_ms, clock.now_ms);
  EXPECT_EQ(dispatcher->next_due_ms(), clock.now_ms + 500);
  clock.now_ms += 500;
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.path, "a");
  EXPECT_EQ(finished[0].finished.code, Code::worker_missing);
  EXPECT_EQ(finished[0].finished.side, core::FailureSide::platform);
  EXPECT_FALSE(finished[0].finished.retryable);
  const Worker worker = connect("w1");
  EXPECT_EQ(out(worker), Paths{"b"}) << "the other one has no limit";
  EXPECT_EQ(where("b"), "with worker w1");
}

TEST_F(Workers, TasksGoOutUpToTheRoomAndAnswersAreSettledWhenTheyAreDurable) {  // J5, J8
  for (const char* path : {"a", "b", "c"}) dispatcher->submit(stream, action(path));
  const Worker worker = connect("w1", 2);
  ASSERT_EQ(out(worker), (Paths{"a", "b"}));
  EXPECT_EQ(where("c"), "waiting for room at a worker of w");
  EXPECT_EQ(worker.link->tasks[0].input->bytes, "\"in\"");
  EXPECT_EQ(worker.link->tasks[0].key, "key");
  const auto finished = answer(worker, worker.link->tasks[0].id, "{\"x\":1}");
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.token, action("a").token);
  EXPECT_TRUE(finished[0].finished.receipt);
  EXPECT_EQ(finished[0].finished.result.slot->bytes, "{\"x\":1}");
  EXPECT_EQ(out(worker), (Paths{"a", "b", "c"}));
  EXPECT_TRUE(worker.link->settled.empty()) << "it is not durable yet";
  EXPECT_TRUE(answer(worker, worker.link->tasks[0].id).empty()) << "said twice, counted once";
  EXPECT_TRUE(worker.link->gone.empty());
  Action settled = action("a");
  settled.kind = ActionKind::settled;
  dispatcher->submit(stream, settled);
  poll();
  EXPECT_EQ(worker.link->settled, Paths{"a"});
}

TEST_F(Workers, AnAnswerCountsOnlyFromWhoHasTheTask) {  // J8, FR-11
  dispatcher->submit(stream, action("a"));
  const Worker worker = connect("w1");
  const Worker other = connect("w2");
  TaskId forged = worker.link->tasks.at(0).id;
  EXPECT_TRUE(answer(other, forged).empty());
  EXPECT_EQ(other.link->gone, Paths{"a"});
  ++forged.token.counter;
  EXPECT_TRUE(answer(worker, forged).empty());
  Action next = action("a");
  next.token.attempt = 2;
  next.token.counter = 9;
  dispatcher->submit(stream, next);
  poll();
  EXPECT_EQ(worker.link->gone.size(), 2U) << "and it is told that its attempt is over";
  EXPECT_TRUE(answer(worker, worker.link->tasks[0].id).empty());
  EXPECT_EQ(dispatcher->under_way(), 1U);
}

TEST_F(Workers, TheLastProgressGoesWithTheFailure) {  // FR-59, E4
  Action watched = action("a");
  watched.heartbeat_ms = 1000;
  dispatcher->submit(stream, watched);
  const Worker worker = connect("w1");
  const TaskId id = worker.link->tasks.at(0).id;
  for (int i = 1; i <= 100; ++i) {
    WorkerSays words;
    words.heartbeats.push_back({id, std::to_string(i)});
    pool->hear(worker.session, std::move(words));
  }
  WorkerSays failed;
  failed.answers.push_back({id,
                            {.outcome = core::Outcome::not_done,
                             .code = Code::step_failed,
                             .retryable = true,
                             .message = "no",
                             .type = "Busy"}});
  pool->hear(worker.session, std::move(failed));
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.progress.slot->bytes, "100");
  EXPECT_EQ(finished[0].finished.type, "Busy");
}

TEST_F(Workers, ASilentAttemptIsGivenUpAndOneThatIsHeardIsNot) {  // E4, FR-26
  Action watched = action("a");
  watched.heartbeat_ms = 1000;
  dispatcher->submit(stream, watched);
  const Worker worker = connect("w1");
  const TaskId id = worker.link->tasks.at(0).id;
  for (int i = 0; i < 5; ++i) {
    clock.now_ms += 900;
    WorkerSays words;
    words.heartbeats.push_back({id, i == 0 ? "\"half\"" : ""});
    pool->hear(worker.session, std::move(words));
    EXPECT_TRUE(poll().empty());
  }
  clock.now_ms += 1000;
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::step_timed_out);
  EXPECT_EQ(finished[0].finished.outcome, core::Outcome::unknown);
  EXPECT_EQ(finished[0].finished.progress.slot->bytes, "\"half\"");
  EXPECT_EQ(worker.link->gone, Paths{"a"});
}

TEST_F(Workers, StartToCloseCountsFromTheStartAndScheduleToCloseFromTheSchedule) {  // E4
  Action first = action("a");
  first.start_to_close_ms = 1000;
  Action second = action("b");
  second.start_to_close_ms = 5000;
  second.close_by_ms = clock.now_ms + 2500;
  Action never = action("c");
  never.close_by_ms = clock.now_ms + 800;
  for (const Action& one : {first, second, never}) dispatcher->submit(stream, one);
  clock.now_ms += 800;
  auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.path, "c");
  EXPECT_EQ(finished[0].finished.code, Code::worker_missing);
  const Worker worker = connect("w1", 3);
  EXPECT_EQ(worker.link->tasks.at(0).start_to_close_ms, 1000);
  EXPECT_EQ(worker.link->tasks.at(1).start_to_close_ms, 1700) << "what is left of the step's time";
  clock.now_ms += 999;
  EXPECT_TRUE(poll().empty());
  clock.now_ms += 1;
  finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.path, "a");
  EXPECT_EQ(finished[0].finished.code, Code::step_timed_out);
  clock.now_ms += 700;
  ASSERT_EQ(poll().size(), 1U);
}

TEST_F(Workers, WhoComesBackGoesOnWithWhatItNamesAndTheRestIsQueuedAtOnce) {  // FR-74
  for (const char* path : {"a", "b"}) dispatcher->submit(stream, action(path));
  const Worker before = connect("w1", 2);
  const TaskId kept = before.link->tasks.at(0).id;
  pool->detach(before.session);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(where("a"), "with worker w1, which is away");
  const Worker other = connect("w2", 2);
  EXPECT_TRUE(other.link->tasks.empty()) << "it has its lease";
  const Worker again = connect("w1", 2, {kept});
  EXPECT_EQ(out(other), Paths{"b"}) << "it had never reached the worker";
  EXPECT_TRUE(again.link->tasks.empty());
  EXPECT_EQ(answer(again, kept).size(), 1U);
}

TEST_F(Workers, WhoDoesNotComeBackLosesWhatItHadAfterTheLease) {  // FR-72, FR-1
  dispatcher->submit(stream, action("a"));
  const Worker worker = connect("w1");
  pool->detach(worker.session);
  EXPECT_TRUE(poll().empty());
  clock.now_ms += 9'999;
  EXPECT_TRUE(poll().empty());
  clock.now_ms += 1;
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.code, Code::worker_lost);
  EXPECT_TRUE(finished[0].finished.retryable);
  EXPECT_EQ(finished[0].finished.outcome, core::Outcome::unknown);
  const Worker late = connect("w1", 1, {worker.link->tasks.at(0).id});
  EXPECT_TRUE(answer(late, worker.link->tasks.at(0).id).empty());
  clock.now_ms += 10'000;
  pool->hear(late.session, {});
  poll();
  EXPECT_EQ(late.link->gone, Paths{"a"});
}

TEST_F(Workers, AWorkerThatHangsIsCutOffAfterTheLease) {
  dispatcher->submit(stream, action("a"));
  const Worker worker = connect("w1");
  for (int i = 0; i < 3; ++i) {
    clock.now_ms += 9'000;
    pool->hear(worker.session, {});
    EXPECT_TRUE(poll().empty());
  }
  clock.now_ms += 10'000;
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(worker.link->closed, Code::timed_out);
  clock.now_ms += 10'000;
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(Workers, AfterARestartWhatAWorkerNamesGoesOnUnderItsOldToken) {  // J8, FR-74
  clock.now_ms += 1;
  dispatcher->submit(stream, action("a"));
  dispatcher->submit(stream, action("b"));
  const Worker before = connect("w1", 2);
  const TaskId old = before.link->tasks.at(0).id;
  ASSERT_EQ(before.link->tasks.size(), 2U);
  const std::int64_t scheduled_ms = clock.now_ms;
  clock.now_ms += 50;
  open({});
  for (const char* path : {"a", "b"}) {
    Action again = action(path, 2);
    again.scheduled_ms = scheduled_ms;
    dispatcher->submit(stream, again);
  }
  const Worker other = connect("w2", 5);
  EXPECT_TRUE(other.link->tasks.empty()) << "w1 may have them";
  const Worker back = connect("w1", 2, {old});
  EXPECT_TRUE(back.link->gone.empty());
  clock.now_ms += 2'000;
  poll();
  EXPECT_EQ(out(other), Paths{"b"}) << "nobody has named it";
  const auto finished = answer(back, old);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.token.epoch, 2U) << "the decider knows the present owner's token alone";
  Action settled = action("a", 2);
  settled.kind = ActionKind::settled;
  dispatcher->submit(stream, settled);
  poll();
  EXPECT_EQ(back.link->settled, Paths{"a"});
}

TEST_F(Workers, AnAnswerThatComesBeforeItsRunIsInMemoryWaitsForIt) {  // FR-74
  const TaskId old(stream, "a", action("a").token);
  const Worker back = connect("w1", 1, {old});
  EXPECT_TRUE(answer(back, old).empty());
  EXPECT_TRUE(back.link->gone.empty());
  Action again = action("a", 2);
  again.scheduled_ms = 1;
  dispatcher->submit(stream, again);
  EXPECT_EQ(poll().size(), 1U);
  const TaskId over(stream, "z", action("z").token);
  const Worker other = connect("w2", 1, {over});
  clock.now_ms += 10'000;
  pool->hear(other.session, {});
  poll();
  EXPECT_EQ(other.link->gone, Paths{"z"}) << "its answer was durable before";
}

TEST_F(Workers, ATaskThatIsNotInMemoryYetIsNobodyElsesToName) {  // J8
  const TaskId real(stream, "a", action("a").token);
  const Worker thief = connect("w1", 1, {real}, "other");
  EXPECT_TRUE(answer(thief, real, "\"forged\"").empty());
  TaskId newer = real;
  newer.token.epoch = 9;
  const Worker liar = connect("w2", 1, {newer});
  const Worker back = connect("w3", 1, {real});
  const Worker second = connect("w4", 1, {real});
  EXPECT_TRUE(answer(back, real, "1").empty());
  Action again = action("a", 2);
  again.scheduled_ms = 1;
  dispatcher->submit(stream, again);
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.result.slot->bytes, "1");
  for (const Worker* one : {&thief, &liar, &second}) EXPECT_EQ(one->link->gone, Paths{"a"});
}

TEST_F(Workers, APoliteStopTakesNothingMoreAndHandsBackAtOnce) {  // FR-75, FR-76
  for (const char* path : {"a", "b"}) dispatcher->submit(stream, action(path));
  const Worker worker = connect("w1", 2);
  const Worker other = connect("w2", 5);
  WorkerSays stop;
  stop.drains = true;
  stop.handed_back.push_back(worker.link->tasks.at(1).id);
  pool->hear(worker.session, std::move(stop));
  dispatcher->submit(stream, action("c"));
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(out(other), (Paths{"b", "c"}));
  EXPECT_EQ(out(worker), (Paths{"a", "b"}));
  EXPECT_EQ(answer(worker, worker.link->tasks[0].id).size(), 1U) << "what it has begun it ends";
  pool->detach(worker.session);
  poll();
  EXPECT_EQ(answer(other, other.link->tasks[0].id).size(), 1U);
}

TEST_F(Workers, AWorkerGetsItsOwnTenantsStepsAlone) {
  dispatcher->submit(stream, action("a"));
  const Worker stranger = connect("w1", 5, {}, "other");
  EXPECT_TRUE(stranger.link->tasks.empty());
  const Worker thief = connect("w2", 5, {TaskId(stream, "a", action("a").token)}, "other");
  EXPECT_EQ(thief.link->gone, Paths{"a"});
  EXPECT_TRUE(answer(thief, TaskId(stream, "a", action("a").token)).empty());
  const Worker own = connect("w3");
  EXPECT_EQ(out(own), Paths{"a"});
  const Worker usurper = connect("w3", 5, {own.link->tasks[0].id}, "other");
  EXPECT_EQ(usurper.link->closed, Code::already_exists);
  EXPECT_EQ(answer(own, own.link->tasks[0].id).size(), 1U);
}

TEST_F(Workers, ACancelReachesTheWorkerOrEndsWhatNobodyHas) {  // E4
  dispatcher->submit(stream, action("a"));
  const Worker worker = connect("w1");
  dispatcher->submit(stream, action("b"));
  for (const char* path : {"a", "b"}) {
    Action cancel = action(path);
    cancel.kind = ActionKind::cancel;
    dispatcher->submit(stream, cancel);
  }
  const auto finished = poll();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].finished.path, "b");
  EXPECT_EQ(finished[0].finished.code, Code::cancelled);
  EXPECT_EQ(worker.link->cancelled, Paths{"a"});
  EXPECT_EQ(answer(worker, worker.link->tasks[0].id).size(), 1U);
  EXPECT_EQ(worker.link->settled, Paths{"a"}) << "no record will say so";
  EXPECT_EQ(out(worker), Paths{"a"});
}

TEST_F(Workers, WhateverComesAndGoesNoStepIsLostOrCountedTwice) {  // FR-72, FR-73, FR-74
  tests::support::SeededRandom random(7);
  const auto below = [&](std::uint64_t most) { return random.next() % most; };
  constexpr std::size_t kSteps = 300;
  for (std::size_t i = 0; i < kSteps; ++i) dispatcher->submit(stream, action("s" + std::to_string(i)));
  struct Live {
    Worker worker;
    std::size_t seen = 0;
    std::vector<TaskId> held;
  };
  std::map<std::string, Live> live;
  std::map<std::string, int> ends;
  const auto take = [&](std::vector<core::FinishedAction> finished) {
    for (auto& one : finished) {
      if (one.finished.outcome == core::Outcome::done) {
        ++ends[one.finished.path];
      } else {
        Action again = action(one.finished.path);
        again.token = {1, one.finished.token.attempt + 1, one.finished.token.counter + 1};
        dispatcher->submit(stream, again);
      }
    }
  };
  for (int turn = 0; turn < 4000 && ends.size() < kSteps; ++turn) {
    const std::string name = "w" + std::to_string(below(3));
    Live& one = live[name];
    const auto what = below(10);
    if (one.worker.session == 0 || what == 0) {  // comes (back), with a part of what it had
      std::erase_if(one.held, [&](const TaskId&) { return below(4) == 0; });
      one.worker = connect(name, 4, one.held);
      one.seen = 0;
    } else if (what == 1) {
      pool->detach(one.worker.session);
      if (below(2) == 0) clock.now_ms += 4'000;
    } else {
      for (; one.seen < one.worker.link->tasks.size(); ++one.seen)
        one.held.push_back(one.worker.link->tasks[one.seen].id);
      if (one.held.empty()) continue;
      const TaskId id = one.held.back();
      one.held.pop_back();
      take(answer(one.worker, id));
    }
    take(poll());
  }
  EXPECT_EQ(ends.size(), kSteps);
  for (const auto& [path, count] : ends) EXPECT_EQ(count, 1) << path;
  EXPECT_EQ(dispatcher->under_way(), 0U);
  for (const auto& queue : pool->queues()) EXPECT_EQ(queue.waiting + queue.out, 0U);
}

}  // namespace
}  // namespace sandglass::engine::dispatch
