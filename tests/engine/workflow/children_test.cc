// Child runs and continue_as_new as workflow code sees them; tests/engine/run/kin_test.cc has the runs on
// both sides, and the simulation whole families of them.
#include <gtest/gtest.h>

#include "engine/workflow/checkpoint.h"
#include "engine/workflow/testing.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;

using Answer = std::function<void(TestRun&, const core::Message&)>;

/// Plays it with live coroutines and with every one evicted; both must give the same history.
TestRun played(
    const Registry& registry, TestRunOptions options, const Answer& child,
    const std::function<void(TestRun&)>& world = [](TestRun& run) { run.play(); }) {
  const auto play = [&](TestRun& run) {
    run.on_message([&](const core::Message& message) { child(run, message); });
    world(run);
  };
  options.evict_everything = true;
  TestRun cold(registry, options);
  play(cold);
  options.evict_everything = false;
  TestRun live(registry, options);
  play(live);
  EXPECT_EQ(live.events(), cold.events());
  EXPECT_EQ(live.check_replay(), "");
  EXPECT_EQ(cold.check_replay(), "");
  return live;
}

void end(TestRun& run, const core::Message& of, core::RunEnded ended, const Json& payload = nullptr) {
  ended.run = of.target;
  run.deliver(of.target, of.correlation, std::move(ended), payload);
}

/// Each child doubles its input.
void doubles(TestRun& run, const core::Message& message) {
  if (!std::holds_alternative<core::RunStartRequested>(message.body)) return;
  end(run, message, {}, 2 * Json::parse(message.payload.slot->bytes).get<int>());
}

TEST(Children, ResultsComeBackAndHandlesMayBeWaitedForLater) {
  Registry registry;
  registry.add("twice", "3", [](Context&, Json input) -> Task<Result<Json>> { co_return input; });
  registry.add("parent", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto first = co_await ctx.child("c", "twice", 1);
    auto second = co_await ctx.child("c", "twice", 2);
    auto early = ctx.start_child("early", "twice", 3);
    if (!early) co_return std::unexpected(early.error());
    auto slept = co_await ctx.sleep(1000);  // its end comes before it is waited for
    auto joined = co_await ctx.join(*early);
    EXPECT_EQ(joined.how, core::RunEnd::completed);
    EXPECT_EQ(joined.run, early->run);
    co_return Json{*first, *second, joined.value.value()};
  });
  std::vector<core::RunStartRequested> asked;
  const TestRun run =
      played(registry, {.workflow = "parent"}, [&](TestRun& run, const core::Message& message) {
        asked.push_back(std::get<core::RunStartRequested>(message.body));
        doubles(run, message);
      });
  EXPECT_EQ(run.result(), Json({2, 4, 6}));
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].version, "3");  // the newest when it was started
}

TEST(Children, AFailureKeepsCodeSideAndWords) {
  Registry registry;
  registry.add("parent", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto failed = co_await ctx.run_child("c", "w", nullptr);
    EXPECT_EQ(failed.side, core::FailureSide::platform);
    EXPECT_EQ(failed.how, core::RunEnd::failed);
    EXPECT_EQ(failed.value.error().code, Code::sandbox_lost);
    auto refused = co_await ctx.run_child("c", "w", nullptr);
    EXPECT_EQ(refused.how, core::RunEnd::refused);
    EXPECT_EQ(refused.value.error().code, Code::run_exists);
    co_return std::unexpected(failed.value.error());
  });
  const TestRun run =
      played(registry, {.workflow = "parent"}, [](TestRun& run, const core::Message& message) {
        if (message.correlation.ends_with("#0")) {
          end(run, message,
              {.how = core::RunEnd::failed, .code = Code::sandbox_lost, .side = core::FailureSide::platform},
              {{"message", "the sandbox is gone"}});
        } else {
          end(run, message, {.how = core::RunEnd::refused, .code = Code::run_exists, .message = "taken"});
        }
      });
  EXPECT_EQ(run.result().error().code, Code::sandbox_lost);
  EXPECT_NE(run.result().error().message.find("the sandbox is gone"), std::string::npos);
  EXPECT_EQ(run.state().end_side, core::FailureSide::platform);
}

TEST(Children, ACancelledParentCancelsItsChildrenAndEndsAsCancelled) {  // FR-69, FR-70
  Registry registry;
  registry.add("parent", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto both = co_await ctx.all<Result<Json>>(
        {[](Context& c) { return c.child("a", "w", 1); }, [](Context& c) { return c.child("b", "w", 2); }});
    for (const auto& one : both) EXPECT_EQ(one.error().code, Code::cancelled);
    auto late = co_await ctx.child("late", "w", 3);  // not started any more
    co_return std::unexpected(late.error());
  });
  std::size_t stops = 0;
  const TestRun run = played(
      registry, {.workflow = "parent"},
      [&](TestRun& run, const core::Message& message) {
        if (!std::holds_alternative<core::RunStopRequested>(message.body)) return;
        ++stops;
        EXPECT_FALSE(std::get<core::RunStopRequested>(message.body).terminate);
        end(run, message, {.how = core::RunEnd::cancelled, .code = Code::cancelled});
      },
      [](TestRun& run) {
        run.play();
        EXPECT_TRUE(run.cancel());
        run.play();
      });
  EXPECT_EQ(run.status(), run::RunStatus::cancelled);
  EXPECT_EQ(stops, 4U);  // two children, played twice
  EXPECT_EQ(run.count<run::ChildScheduled>(), 2U);
}

TEST(Children, TheLoserOfARaceIsCancelledAndWaitedFor) {
  Registry registry;
  registry.add("parent", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto raced = co_await ctx.race<Result<Json>>({[](Context& c) { return c.child("a", "w", 1); },
                                                  [](Context& c) -> Task<Result<Json>> {
                                                    auto slept = co_await c.sleep(10);
                                                    co_return Json("slept");
                                                  }});
    co_return raced.value;
  });
  const TestRun run =
      played(registry, {.workflow = "parent"}, [](TestRun& run, const core::Message& message) {
        if (std::holds_alternative<core::RunStopRequested>(message.body)) end(run, message, {}, 5);
      });
  EXPECT_EQ(run.result(), Json("slept"));
  EXPECT_EQ(run.count<run::ChildEnded>(), 1U);
}

TEST(Children, EndsThatComeWhileTheEngineIsAwayOrTheRunStuckAreSeen) {
  Registry registry;
  const auto code = [](Context& ctx, Json) -> Task<Result<Json>> {
    co_return co_await ctx.child("c", "w", 4);
  };
  registry.add("parent", "1", code);
  Registry without;
  TestRun run(registry, {.workflow = "parent"});
  std::vector<core::Message> open;
  run.on_message([&](const core::Message& message) { open.push_back(message); });
  run.play();
  ASSERT_EQ(open.size(), 1U);
  run.restart(without);
  EXPECT_TRUE(run.signal("wakes it"));  // stuck: nobody knows its code
  ASSERT_EQ(run.status(), run::RunStatus::stuck);
  doubles(run, open[0]);
  doubles(run, open[0]);  // only the first end counts
  run.restart(registry);
  EXPECT_TRUE(run.resume());
  run.play();
  EXPECT_EQ(run.result(), Json(8));
  EXPECT_EQ(run.count<run::ChildEnded>(), 1U);
  EXPECT_EQ(run.check_replay(), "");
}

struct Loop {
  int turn = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(turn);
  }
};

TEST(Children, OnlyAbandonedOnesMayBeOpenAtACheckpoint) {
  Registry registry;
  add_checkpointing<Loop>(
      registry, "parent", "1", [](const Json&) { return Loop{}; },
      [](Context& ctx, Loop loop) -> Task<Result<Json>> {
        while (loop.turn++ < 3) {
          auto away = ctx.start_child("away", "w", loop.turn, {.on_close = run::ClosePolicy::abandon});
          auto mine = ctx.start_child("mine", "w", loop.turn);
          EXPECT_EQ((co_await ctx.checkpoint(loop)).error().code, Code::checkpoint_misplaced);
          auto joined = co_await ctx.join(*mine);
          if (auto saved = co_await ctx.checkpoint(loop); !saved) co_return std::unexpected(saved.error());
        }
        co_return loop.turn;
      });
  const TestRun run =
      played(registry, {.workflow = "parent"}, [](TestRun& run, const core::Message& message) {
        if (message.correlation.find("mine") != std::string::npos) doubles(run, message);
      });
  EXPECT_EQ(run.result(), Json(4));
  EXPECT_EQ(run.count<run::ChildScheduled>(), 6U);
}

// ---- continue_as_new

Task<Result<Json>> rolls(Context& ctx, Json input) {
  auto first = co_await ctx.wait_signal("go");
  auto refused = co_await ctx.continue_as_new(input.get<int>() + 1);
  ADD_FAILURE() << "it goes on: " << refused.error().message;
  co_return std::unexpected(refused.error());
}

TEST(ContinueAsNew, OneRecordHasTheEndTheStartAndTheUnreadSignalsInOrder) {  // FR-62
  Registry registry;
  registry.add("rolls", "1", rolls);
  std::vector<core::Message> sent;
  const TestRun run = played(
      registry, {.workflow = "rolls", .input = 7},
      [&](TestRun&, const core::Message& message) { sent.push_back(message); },
      [&](TestRun& run) {
        sent.clear();
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.signal("other", i));
        EXPECT_TRUE(run.signal("go"));
        EXPECT_TRUE(run.signal("other", 3));  // it has been continued: passed on
        run.play();
      });
  EXPECT_EQ(run.status(), run::RunStatus::continued);
  EXPECT_EQ(run.state().closed_ms, run.now_ms());
  ASSERT_EQ(sent.size(), 5U);
  EXPECT_EQ(std::get<core::RunStartRequested>(sent[0].body).version, "1");
  EXPECT_EQ(sent[0].payload.slot->bytes, "8");
  for (std::size_t i = 1; i < sent.size(); ++i) {
    EXPECT_EQ(std::get<core::RunSignalled>(sent[i].body).name, "other");
    EXPECT_EQ(sent[i].payload.slot->bytes, std::to_string(i - 1));
    EXPECT_EQ(sent[i].target, run.state().successor);
    EXPECT_EQ(sent[i].source_seq == sent[0].source_seq, i < 4);
  }
}

TEST(ContinueAsNew, IsAnErrorValueWhereSomethingIsOpenOrInTheWrongPlace) {  // J17
  Registry registry;
  registry.add("w", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    std::vector<Code> codes;
    auto child = ctx.start_child("c", "w", 1);
    codes.push_back((co_await ctx.continue_as_new(1)).error().code);
    auto joined = co_await ctx.join(*child);
    co_await ctx.scope("s", [&](Context& inner) -> Task<Status> {
      codes.push_back((co_await inner.continue_as_new(1)).error().code);
      co_return Status{};
    });
    co_await ctx.all<Status>({[](Context& c) -> Task<Status> {
                                auto done = co_await c.operation("o", "tool", 1);
                                co_return Status{};
                              },
                              [&](Context& c) -> Task<Status> {
                                codes.push_back((co_await c.continue_as_new(1)).error().code);
                                co_return Status{};
                              }});
    codes.push_back((co_await ctx.continue_as_new(std::string(run::kMaxPayloadBytes, 'x'))).error().code);
    EXPECT_EQ(codes, (std::vector{Code::checkpoint_misplaced, Code::checkpoint_misplaced,
                                  Code::checkpoint_misplaced, Code::record_too_large}));
    co_return Json("done");
  });
  const TestRun run = played(registry, {.workflow = "w"}, doubles, [](TestRun& run) {
    run.activity("tool", [](const Json&) { return Json(1); });
    run.play();
  });
  EXPECT_EQ(run.result(), Json("done"));
}

TEST(ContinueAsNew, SignalsThatAreTooMuchForTheStartAreTakenFirst) {
  Registry registry;
  registry.add("w", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto go = co_await ctx.wait_signal("go");
    int taken = 0;
    for (;;) {
      auto refused = co_await ctx.continue_as_new(taken);
      if (refused.error().code != Code::record_too_large) co_return std::unexpected(refused.error());
      auto signal = co_await ctx.wait_signal("much");
      ++taken;
    }
  });
  std::size_t carried = 0;
  const TestRun run = played(
      registry, {.workflow = "w"},
      [&](TestRun&, const core::Message& message) {
        carried += std::holds_alternative<core::RunSignalled>(message.body);
      },
      [&](TestRun& run) {
        carried = 0;
        for (int i = 0; i < 5; ++i) EXPECT_TRUE(run.signal("much", std::string(100'000, 'x')));
        EXPECT_TRUE(run.signal("go"));
        run.play();
      });
  EXPECT_EQ(run.status(), run::RunStatus::continued);
  EXPECT_EQ(carried, 2U);
  EXPECT_EQ(run.count<run::SignalTaken>(), 4U);
}

TEST(ContinueAsNew, ChangedCodeThatDoesNotContinueIsSeen) {
  Registry registry;
  registry.add("rolls", "1", rolls);
  Registry changed;
  changed.add("rolls", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto first = co_await ctx.wait_signal("go");
    co_return Json(1);
  });
  TestRun run(registry, {.workflow = "rolls", .input = 7});
  EXPECT_TRUE(run.signal("go"));
  run.restart(changed);
  EXPECT_NE(run.check_replay(), "");
}

}  // namespace
}  // namespace sandglass::engine::workflow
