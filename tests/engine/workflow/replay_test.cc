#include <gtest/gtest.h>

#include "engine/workflow/checkpoint.h"
#include "engine/workflow/testing.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;
using Code2 = Task<Result<Json>> (*)(Context&, Json);

Registry with(Code2 code) {
  Registry registry;
  registry.add("w", "1", code);
  return registry;
}

void echo_world(TestRun& run) {
  run.activity("a", [](const Json&) { return Json("a"); });
  run.activity("b", [](const Json&) { return Json("b"); });
}

Task<Result<Json>> a_then_b(Context& ctx, Json) {
  auto a = co_await ctx.step("first", "a", 1);
  (void)co_await ctx.wait_signal("go");
  co_return co_await ctx.step("second", "b", a.value());
}

/// Runs a_then_b up to the signal, then lets other code take over.
void change_code(Code2 changed, const run::StuckReport& expected) {
  const Registry old_code = with(a_then_b);
  const Registry new_code = with(changed);
  TestRun run(old_code, {.workflow = "w"});
  echo_world(run);
  run.play();
  run.restart(new_code);
  ASSERT_TRUE(run.signal("go"));
  ASSERT_EQ(run.status(), run::RunStatus::stuck);
  run::StuckReport report = run.state().stuck;
  EXPECT_FALSE(report.message.empty());
  EXPECT_TRUE(report.expected.starts_with(expected.expected)) << report.expected;
  EXPECT_TRUE(report.actual.starts_with(expected.actual)) << report.actual;
  EXPECT_EQ(report.path, expected.path);
  EXPECT_EQ(report.event_seq, expected.event_seq);
  EXPECT_EQ(report.code, Code::non_determinism);
  // Nothing is lost, and the right code goes on (E5).
  run.restart(old_code);
  ASSERT_TRUE(run.resume());
  run.play();
  EXPECT_EQ(run.result(), Json("b"));
  EXPECT_EQ(run.check_replay(), "");
  EXPECT_EQ(run.count<run::StepScheduled>(), 2U);
}

TEST(Replay, ChangedCodeIsParkedWithAReportAndRepairedCodeGoesOn) {  // J14, FR-39
  change_code(
      [](Context& ctx, Json) -> Task<Result<Json>> {
        auto b = co_await ctx.step("second", "b", 1);
        co_return co_await ctx.step("first", "a", b.value());
      },
      {.expected = "step 0/first#0 (a", .actual = "step 0/second#0 (b", .event_seq = 1, .path = "0/first#0"});
  change_code(
      [](Context& ctx, Json) -> Task<Result<Json>> { co_return co_await ctx.step("first", "a", 2); },
      {.expected = "step 0/first#0 (a", .actual = "step 0/first#0 (a", .event_seq = 1, .path = "0/first#0"});
  change_code(
      [](Context& ctx, Json) -> Task<Result<Json>> { co_return co_await ctx.step("first", "b", 1); },
      {.expected = "step 0/first#0 (a", .actual = "step 0/first#0 (b", .event_seq = 1, .path = "0/first#0"});
  change_code(
      [](Context&, Json) -> Task<Result<Json>> { co_return 1; },
      {.expected = "step 0/first#0 (a", .actual = "end of the run", .event_seq = 1, .path = "0/first#0"});
  change_code(
      [](Context& ctx, Json) -> Task<Result<Json>> {
        (void)co_await ctx.wait_signal("go");
        co_return 1;
      },
      {.expected = "step 0/first#0 (a", .actual = "nothing", .event_seq = 1, .path = "0/first#0"});
}

TEST(Replay, ABranchThatIsAddedBesideRecordedStepsIsNonDeterminism) {
  const Registry old_code = with([](Context& ctx, Json) -> Task<Result<Json>> {
    (void)co_await ctx.step("one", "a", nullptr);
    (void)co_await ctx.step("two", "b", nullptr);
    (void)co_await ctx.step("three", "b", nullptr);
    co_return co_await ctx.wait_signal("go");
  });
  const Registry new_code = with([](Context& ctx, Json) -> Task<Result<Json>> {
    (void)co_await ctx.step("one", "a", nullptr);
    std::vector<Branch<Status>> both;
    both.push_back([&ctx](Context&) -> Task<Status> {
      (void)co_await ctx.step("added", "a", nullptr);
      co_return Status{};
    });
    both.push_back([&ctx](Context&) -> Task<Status> {
      (void)co_await ctx.step("two", "b", nullptr);
      (void)co_await ctx.step("three", "b", nullptr);
      co_return Status{};
    });
    (void)co_await ctx.all(std::move(both));
    co_return co_await ctx.wait_signal("go");
  });
  TestRun run(old_code, {.workflow = "w"});
  echo_world(run);
  run.play();
  run.restart(new_code);
  ASSERT_TRUE(run.signal("x"));
  ASSERT_EQ(run.status(), run::RunStatus::stuck);
  EXPECT_EQ(run.state().stuck.path, "0/added#0");
  EXPECT_TRUE(run.state().stuck.expected.starts_with("step 0/three#0"));
}

TEST(Replay, UnknownWorkflowIsShownAndRegisteringItUnblocks) {  // FR-38
  const Registry empty;
  const Registry known = with(a_then_b);
  TestRun run(empty, {.workflow = "w", .version = "1"});
  echo_world(run);
  EXPECT_EQ(run.state().stuck.code, Code::workflow_unknown);
  EXPECT_EQ(run.state().stuck.expected, "w version 1");
  run.restart(known);
  ASSERT_TRUE(run.signal("go"));
  ASSERT_TRUE(run.resume());
  run.play();
  EXPECT_EQ(run.result(), Json("b"));
}

TEST(Replay, CodeThatThrowsMakesTheRunStuck) {
  const Registry thrower = with([](Context& ctx, Json) -> Task<Result<Json>> {
    auto a = co_await ctx.step("first", "a", 1);
    co_return a->at("no such key");
  });
  TestRun run(thrower, {.workflow = "w"});
  echo_world(run);
  run.play();
  EXPECT_EQ(run.state().stuck.code, Code::workflow_threw);
  const Registry repaired =
      with([](Context& ctx, Json) -> Task<Result<Json>> { co_return co_await ctx.step("first", "a", 1); });
  run.restart(repaired);
  ASSERT_TRUE(run.resume());
  run.play();
  EXPECT_EQ(run.result(), Json("a"));
}

TEST(Replay, PatchedKeepsOldRunsOnTheOldWayAndNewOnesOnTheNew) {
  const Registry old_code = with(a_then_b);
  const Registry new_code = with([](Context& ctx, Json) -> Task<Result<Json>> {
    if (ctx.patched("fewer steps")) {
      (void)co_await ctx.wait_signal("go");
      co_return co_await ctx.step("only", "b", nullptr);
    }
    auto a = co_await ctx.step("first", "a", 1);
    (void)co_await ctx.wait_signal("go");
    if (ctx.patched("fewer steps")) co_return "the first answer holds";
    if (ctx.patched("notice")) (void)co_await ctx.step("notice", "a", nullptr);
    co_return co_await ctx.step("second", "b", a.value());
  });
  for (const bool evict : {false, true}) {
    TestRun old_run(old_code, {.workflow = "w", .evict_everything = evict});
    echo_world(old_run);
    old_run.play();
    old_run.restart(new_code);
    ASSERT_TRUE(old_run.signal("go"));
    old_run.play();
    EXPECT_EQ(old_run.result(), Json("b"));
    EXPECT_EQ(old_run.check_replay(), "");
    EXPECT_EQ(old_run.state().patched, (std::set<std::string, std::less<>>{"notice"}));

    TestRun new_run(new_code, {.workflow = "w", .evict_everything = evict});
    echo_world(new_run);
    new_run.play();
    ASSERT_TRUE(new_run.signal("go"));
    new_run.play();
    EXPECT_EQ(new_run.result(), Json("b"));
    EXPECT_EQ(new_run.count<run::StepScheduled>(), 1U);
    EXPECT_EQ(new_run.check_replay(), "");
  }
}

struct Loop {
  int round = 0;
  std::vector<int> signals;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(round, signals);
  }
};

Task<Result<Json>> rounds(Context& ctx, Loop loop) {
  while (loop.round < 5) {
    auto done = co_await ctx.step("work", "a", loop.round);
    if (!done) co_return std::unexpected(done.error());
    if (loop.round % 2 == 1) {
      auto got = co_await ctx.wait_signal("n");
      if (!got) co_return std::unexpected(got.error());
      loop.signals.push_back(got->get<int>());
    }
    ++loop.round;
    if (auto kept = co_await ctx.checkpoint(loop); !kept) co_return std::unexpected(kept.error());
  }
  co_return Json{{"signals", loop.signals}, {"chance", ctx.uuid()}};
}

Registry looping() {
  Registry registry;
  add_checkpointing<Loop>(
      registry, "loop", "1",
      [](const Json& input) -> Result<Loop> { return Loop{.round = input.get<int>()}; }, rounds);
  return registry;
}

TEST(Checkpoint, RebuildStartsThereAndUnreadSignalsComeAlong) {  // J15, FR-12, FR-62
  const Registry registry = looping();
  std::vector<run::Event> first;
  for (const bool evict : {false, true}) {
    TestRun run(registry, {.workflow = "loop", .input = 0, .evict_everything = evict});
    echo_world(run);
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(run.signal("n", i));
    run.play();
    ASSERT_TRUE(run.result()) << run.state().stuck.message;
    EXPECT_EQ((*run.result())["signals"], Json({1, 2}));
    EXPECT_EQ(run.state().generation, 5U);
    EXPECT_EQ(run.check_replay(), "");
    if (evict) {
      EXPECT_EQ(run.events(), first);
    } else {
      first = run.events();
    }
  }
  std::size_t steps = 0;
  for (const auto& event : first) {
    const auto* step = std::get_if<run::StepScheduled>(&event);
    if (step != nullptr) EXPECT_EQ(step->path, std::to_string(steps++) + "/work#0");
  }
}

struct Empty {
  template <class Archive>
  void serialize(Archive&) {}
};

TEST(Checkpoint, InTheWrongPlaceIsAnErrorValue) {
  struct Helper {
    static Task<Status> save(Context& ctx) { co_return co_await ctx.checkpoint(Empty{}); }
  };
  Registry registry;
  add_checkpointing<Empty>(
      registry, "w", "1", [](const Json&) -> Result<Empty> { return Empty{}; },
      [](Context& ctx, Empty) -> Task<Result<Json>> {
        Json codes = Json::array();
        const auto note = [&](const Status& status) {
          codes.push_back(status ? "ok" : std::string(base::name_of(status.error().code)));
        };
        note(co_await Helper::save(ctx));
        note(co_await ctx.scope(
            "s", [](Context& c) -> Task<Status> { co_return co_await c.checkpoint(Empty{}); }));
        std::vector<Branch<Status>> branches(
            1, [&ctx](Context&) -> Task<Status> { co_return co_await ctx.checkpoint(Empty{}); });
        note((co_await ctx.all(std::move(branches))).at(0));
        co_return codes;
      });
  registry.add("plain", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto status = co_await ctx.checkpoint(Empty{});
    co_return std::string(base::name_of(status.error().code));
  });
  TestRun run(registry, {.workflow = "w"});
  run.play();
  EXPECT_EQ(run.result(), Json({"checkpoint_misplaced", "checkpoint_misplaced", "checkpoint_misplaced"}));
  EXPECT_EQ(run.count<run::Checkpointed>(), 0U);
  TestRun plain(registry, {.workflow = "plain"});
  plain.play();
  EXPECT_EQ(plain.result(), Json("checkpoint_misplaced"));
}

struct NewLoop {
  static constexpr std::uint32_t kSchemaVersion = 2;
  std::string text;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(text);
  }
};

TEST(Checkpoint, UndecodableStateMakesTheRunStuckNeverAReplayFromTheStart) {
  const Registry registry = looping();
  TestRun run(registry, {.workflow = "loop", .input = 0});
  echo_world(run);
  run.play();  // waits for a signal in round 1
  ASSERT_EQ(run.state().generation, 1U);
  Registry changed;
  add_checkpointing<NewLoop>(
      changed, "loop", "1", [](const Json&) -> Result<NewLoop> { return NewLoop{}; },
      [](Context&, NewLoop) -> Task<Result<Json>> { co_return 1; });
  run.restart(changed);
  ASSERT_TRUE(run.signal("n", 1));
  EXPECT_EQ(run.state().stuck.code, Code::checkpoint_undecodable);
  run.restart(registry);
  ASSERT_TRUE(run.resume());
  ASSERT_TRUE(run.signal("n", 2));
  run.play();
  EXPECT_EQ((*run.result())["signals"], Json({1, 2}));
}

TEST(Replay, EventsOfAStuckTimeAreSeenOneAtATimeAndLaterReplaysAgree) {  // FR-30, FR-34
  const Registry good = with([](Context& ctx, Json) -> Task<Result<Json>> {
    std::vector<Branch<Result<Json>>> racers;
    racers.push_back([](Context& c) -> Task<Result<Json>> { co_return co_await c.wait_signal("s", 1000); });
    racers.push_back([](Context& c) -> Task<Result<Json>> {
      if (auto slept = co_await c.sleep(500); !slept) co_return std::unexpected(slept.error());
      co_return "slept";
    });
    auto first = co_await ctx.race(std::move(racers));
    (void)co_await ctx.sleep(10);
    co_return *first.value;
  });
  const Registry bad = with([](Context&, Json) -> Task<Result<Json>> { co_return 1; });
  TestRun run(good, {.workflow = "w"});
  run.restart(bad);
  ASSERT_TRUE(run.signal("other"));
  ASSERT_EQ(run.status(), run::RunStatus::stuck);
  ASSERT_TRUE(run.play_one());  // both timers fire while nobody can see it
  ASSERT_TRUE(run.play_one());
  ASSERT_TRUE(run.signal("s", "late"));
  run.restart(good);
  ASSERT_TRUE(run.resume());
  run.play();
  EXPECT_EQ(run.result(), Json("slept"));
  EXPECT_EQ(run.check_replay(), "");
}

}  // namespace
}  // namespace sandglass::engine::workflow
