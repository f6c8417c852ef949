#include <gtest/gtest.h>

#include <algorithm>

#include "engine/workflow/testing.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;

/// Plays it twice, with live coroutines and with every one evicted; both must give the same history.
TestRun played(const Registry& registry, TestRunOptions options, const std::function<void(TestRun&)>& world) {
  options.evict_everything = true;
  TestRun cold(registry, options);
  world(cold);
  options.evict_everything = false;
  TestRun live(registry, options);
  world(live);
  EXPECT_EQ(live.events(), cold.events());
  EXPECT_EQ(live.check_replay(), "");
  EXPECT_EQ(cold.check_replay(), "");
  return live;
}

TEST(Workflow, StepsRunInOrderAndTheResultComesBack) {
  Registry registry;
  registry.add("sum", "1", [](Context& ctx, Json input) -> Task<Result<Json>> {
    int total = 0;
    for (int i = 0; i < input["times"].get<int>(); ++i) {
      auto value = co_await ctx.step_as<int>("add", "math.add", {{"a", total}, {"b", i}});
      if (!value) co_return std::unexpected(value.error());
      total = *value;
    }
    co_return total;
  });
  const TestRun run = played(registry, {.workflow = "sum", .input = {{"times", 10}}}, [](TestRun& run) {
    run.activity("math.add", [](const Json& in) { return in["a"].get<int>() + in["b"].get<int>(); });
    run.play();
  });
  EXPECT_EQ(run.result(), Json(45));
  // J9: a record for the start and one for each completion, which holds the next schedule.
  EXPECT_EQ(run.history().size(), 11U);
}

TEST(Workflow, FailuresAreValuesAndTheRunFailsWithItsError) {  // FR-68
  Registry registry;
  registry.add("fails", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto first = co_await ctx.run_step("try", "broken", nullptr, {.retry = {.max_attempts = 3}});
    EXPECT_FALSE(first.value);
    EXPECT_EQ(first.side, core::FailureSide::platform);
    auto signal = co_await ctx.wait_signal("go");
    EXPECT_TRUE(signal);
    co_return co_await ctx.step("again", "broken", nullptr);
  });
  int calls = 0;
  const TestRun run = played(registry, {.workflow = "fails"}, [&](TestRun& run) {
    calls = 0;
    run.raw_activity("broken", [&](const core::Action&, const Json&) {
      ++calls;
      return core::ActivityResult{.outcome = core::Outcome::not_done,
                                  .code = Code::provider_failed,
                                  .side = core::FailureSide::platform,
                                  .retryable = true,
                                  .message = "no"};
    });
    run.play();
    EXPECT_EQ(run.status(), run::RunStatus::running);
    EXPECT_TRUE(run.signal("go"));
    run.play();
  });
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(run.status(), run::RunStatus::failed);
  EXPECT_EQ(run.result().error(), (base::Error{Code::provider_failed, "no"}));
  EXPECT_EQ(run.state().end_side, core::FailureSide::platform);
}

TEST(Workflow, TimeIsTheEventsAndSleepsOfYearsAreFree) {  // E3
  Registry registry;
  registry.add("sleeper", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    const std::int64_t before = ctx.now_ms();
    constexpr std::int64_t kYear = 365LL * 24 * 3600 * 1000;
    if (auto slept = co_await ctx.sleep(3 * kYear); !slept) co_return std::unexpected(slept.error());
    if (auto slept = co_await ctx.sleep_until(0); !slept) co_return std::unexpected(slept.error());
    co_return (ctx.now_ms() - before) / kYear;
  });
  const TestRun run = played(registry, {.workflow = "sleeper"}, [](TestRun& run) { run.play(); });
  EXPECT_EQ(run.result(), Json(3));
}

TEST(Workflow, ChanceIsTheSameAtEveryReplayAndDiffersByPlace) {
  Registry registry;
  registry.add("dice", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    Json drawn = Json::array();
    for (int i = 0; i < 3; ++i) {
      drawn.push_back(std::to_string(ctx.random()));
      drawn.push_back(ctx.uuid());
      (void)co_await ctx.step("keep", "echo", drawn);
    }
    co_return drawn;
  });
  const TestRun run = played(registry, {.workflow = "dice"}, [](TestRun& run) {
    run.activity("echo", [](const Json& in) { return in; });
    run.play();
  });
  std::vector<std::string> drawn = *run.result();
  EXPECT_EQ(drawn[1].size(), 36U);
  EXPECT_EQ(drawn[1][14], '4');
  std::ranges::sort(drawn);
  EXPECT_EQ(std::ranges::unique(drawn).begin(), drawn.end());
}

TEST(Workflow, SignalsWaitUntilTheyAreTakenAndTimeOutsEndTheWait) {
  Registry registry;
  registry.add("listener", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    Json got = Json::array();
    auto late = co_await ctx.wait_signal("never", 500);
    got.push_back(late ? "signal" : std::string(base::name_of(late.error().code)));
    for (int i = 0; i < 3; ++i) {
      auto value = co_await ctx.wait_signal("n", 1'000'000);
      if (!value) co_return std::unexpected(value.error());
      got.push_back(*value);
    }
    co_return got;
  });
  const TestRun run = played(registry, {.workflow = "listener"}, [](TestRun& run) {
    EXPECT_TRUE(run.signal("n", 1));
    EXPECT_TRUE(run.signal("other", 0));
    EXPECT_TRUE(run.signal("n", 2));
    EXPECT_TRUE(run.play_one());  // the time-out
    EXPECT_TRUE(run.signal("n", 3));
    run.play();
  });
  EXPECT_EQ(run.result(), Json({"timed_out", 1, 2, 3}));
}

TEST(Workflow, BranchesMayEndInAnyOrderAndReplayIsTheSame) {  // J14
  Registry registry;
  registry.add("fan", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    Json seen = Json::array();
    std::vector<Branch<int>> branches;
    for (int i = 0; i < 6; ++i) {
      branches.push_back([i, &seen](Context& branch) -> Task<int> {
        int total = 0;
        for (int k = 0; k <= i % 3; ++k) {
          auto value = co_await branch.step_as<int>("work", "work", {{"branch", i}, {"k", k}});
          total += value.value_or(-1000);
        }
        seen.push_back(i);
        co_return total;
      });
    }
    const std::vector<int> totals = co_await ctx.all(std::move(branches));
    (void)co_await ctx.step("report", "work", {{"branch", 100}, {"k", seen}});
    co_return Json(totals);
  });
  std::set<std::string> orders;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const TestRun run = played(registry, {.workflow = "fan", .seed = seed}, [](TestRun& run) {
      run.activity("work", [](const Json& in) { return in["branch"].get<int>(); });
      run.play();
    });
    EXPECT_EQ(run.result(), Json({0, 2, 6, 3, 8, 15}));
    for (const auto& event : run.events()) {
      const auto* step = std::get_if<run::StepScheduled>(&event);
      if (step != nullptr && step->path == "0/report#0") orders.insert(step->input.digest.hash.hex());
    }
  }
  EXPECT_GT(orders.size(), 10U);  // the order of ends was seen by the code, and replayed
}

TEST(Workflow, RaceCancelsTheLosersAndAnyTakesTheFirstSuccess) {
  Registry registry;
  registry.add("race", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    std::vector<Branch<Result<Json>>> racers;
    racers.push_back(
        [](Context& c) -> Task<Result<Json>> { co_return co_await c.step("slow", "slow", nullptr); });
    racers.push_back([](Context& c) -> Task<Result<Json>> {
      if (auto slept = co_await c.sleep(100); !slept) co_return std::unexpected(slept.error());
      co_return "time is up";
    });
    const Raced<Result<Json>> first = co_await ctx.race(std::move(racers));
    std::vector<Branch<Result<Json>>> tries;
    for (const char* name : {"broken", "good"}) {
      tries.push_back(
          [name](Context& c) -> Task<Result<Json>> { co_return co_await c.step("try", name, nullptr); });
    }
    const Raced<Result<Json>> good = co_await ctx.any<Json>(std::move(tries));
    std::vector<Branch<Result<Json>>> hopeless;
    hopeless.push_back(
        [](Context& c) -> Task<Result<Json>> { co_return co_await c.step("try", "broken", nullptr); });
    const Raced<Result<Json>> none = co_await ctx.any<Json>(std::move(hopeless));
    co_return Json{{"first", *first.value}, {"good", good.winner}, {"none", none.value.has_value()}};
  });
  const TestRun run = played(registry, {.workflow = "race"}, [](TestRun& run) {
    run.hold("slow");
    run.activity("good", [](const Json&) { return Json("ok"); });
    run.activity("broken", [](const Json&) -> Result<Json> { return base::fail(Code::step_failed, "no"); });
    run.play();
    EXPECT_TRUE(run.held_paths().empty());  // it was cancelled
  });
  EXPECT_EQ(run.result(), Json({{"first", "time is up"}, {"good", 1}, {"none", false}}));
  EXPECT_EQ(run.count<run::StepCancelled>(), 1U);
}

TEST(Workflow, CancelReachesEveryWaitAndCleanUpStillRuns) {  // FR-70
  Registry registry;
  registry.add("waits", "1", [](Context& ctx, Json input) -> Task<Result<Json>> {
    const std::string kind = input;
    base::Error error;
    if (kind == "step") {
      error = (co_await ctx.step("s", "held", nullptr)).error();
    } else if (kind == "retry") {
      error = (co_await ctx.step("s", "broken", nullptr, {.retry = {.max_attempts = 0}})).error();
    } else if (kind == "sleep") {
      error = (co_await ctx.sleep(1'000'000)).error();
    } else if (kind == "signal") {
      error = (co_await ctx.wait_signal("x", 1'000'000)).error();
    } else if (kind == "exchange") {
      error = (co_await ctx.exchange("ask", {.target = core::StreamId::named(core::StreamKind::admission, ""),
                                             .body = core::LeaseRequested{},
                                             .payload = std::nullopt,
                                             .timeout_ms = 1'000'000}))
                  .error();
    } else if (kind == "branch") {
      std::vector<Branch<Status>> branches(
          2, [](Context& c) -> Task<Status> { co_return co_await c.sleep(1'000'000); });
      error = (co_await ctx.all(std::move(branches))).at(1).error();
    } else {
      auto done = co_await ctx.operation("o", "held", nullptr);
      error = {done.code, ""};
    }
    EXPECT_EQ(error.code, Code::cancelled) << kind;
    EXPECT_EQ((co_await ctx.sleep(1)).error().code, Code::cancelled);
    auto cleaned = co_await ctx.cleanup(
        "tidy", [](Context& c) -> Task<Result<Json>> { co_return co_await c.step("up", "clean", nullptr); });
    EXPECT_TRUE(cleaned);
    co_return std::unexpected(error);
  });
  for (const char* kind : {"step", "retry", "sleep", "signal", "exchange", "branch"}) {
    const TestRun run = played(registry, {.workflow = "waits", .input = kind}, [](TestRun& run) {
      run.hold("held");
      run.activity("clean", [](const Json&) { return Json(1); });
      run.activity("broken", [](const Json&) -> Result<Json> { return base::fail(Code::step_failed, "no"); });
      for (int i = 0; i < 3 && !run.state().steps.empty() && run.held_paths().empty(); ++i) run.play_one();
      EXPECT_TRUE(run.cancel());
      run.play();
    });
    EXPECT_EQ(run.status(), run::RunStatus::cancelled) << kind;
    EXPECT_EQ(run.count<run::StepCompleted>(), 1U) << kind;
  }
}

TEST(Workflow, ACancelledOperationThatIsOutIsWaitedFor) {
  Registry registry;
  registry.add("pay", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto paid = co_await ctx.operation("pay", "bank", {{"amount", 1}});
    co_return Json{{"outcome", static_cast<int>(paid.outcome)}, {"cancelled", ctx.cancelled()}};
  });
  const TestRun run = played(registry, {.workflow = "pay"}, [](TestRun& run) {
    run.hold("bank");
    run.play();  // reserved and intended
    ASSERT_EQ(run.held_paths(), std::vector<std::string>{"0/pay#0"});
    EXPECT_TRUE(run.cancel());
    run.play();
    EXPECT_EQ(run.status(), run::RunStatus::running);
    EXPECT_TRUE(run.finish_held("0/pay#0", Json("paid")));
    run.play();
  });
  EXPECT_EQ(run.result(), Json({{"outcome", static_cast<int>(core::Outcome::done)}, {"cancelled", true}}));
}

TEST(Workflow, ExchangesBringAnswersAndLeasesAreGivenBack) {
  Registry registry;
  const auto admission = core::StreamId::named(core::StreamKind::admission, "");
  const auto pool = core::StreamId::named(core::StreamKind::pool, "p");
  registry.add("lease", "1", [admission](Context& ctx, Json) -> Task<Result<Json>> {
    ctx.set_phase(run::Phase::starting_sandbox);
    auto answer = co_await ctx.exchange("sandbox",
                                        {.target = admission, .body = core::LeaseRequested{}, .payload = {}});
    if (!answer) co_return std::unexpected(answer.error());
    ctx.set_phase(run::Phase::releasing);
    if (auto released = co_await ctx.release_lease(answer->path); !released) {
      co_return std::unexpected(released.error());
    }
    co_return std::get<core::LeaseGranted>(answer->body).sandbox;
  });
  const TestRun run = played(registry, {.workflow = "lease"}, [&](TestRun& run) {
    run.on_message([&](const core::Message& message) {
      if (std::holds_alternative<core::LeaseRequested>(message.body)) {
        EXPECT_EQ(run.state().phase, run::Phase::starting_sandbox);
        run.deliver(admission, message.correlation, core::LeaseQueued{1});
        run.deliver(pool, message.correlation, core::LeaseGranted{.sandbox = "sb", .token = 3});
      } else if (std::holds_alternative<core::LeaseReturned>(message.body)) {
        EXPECT_EQ(message.target, pool);
        run.deliver(pool, message.correlation, core::LeaseEnded{.sandbox = "sb", .token = 3});
      }
    });
    run.play();
  });
  EXPECT_EQ(run.result(), Json("sb"));
  EXPECT_TRUE(run.state().leases.empty());
}

TEST(Workflow, PayloadsThatCannotBeRecordedAreErrorValues) {  // FR-78, FR-80
  Registry registry;
  registry.add("large", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    auto large = co_await ctx.step("s", "a", std::string(300 * 1024, 'x'));
    auto invalid = co_await ctx.step("s", "a", "\xff\xfe");
    co_return Json{base::name_of(large.error().code), base::name_of(invalid.error().code)};
  });
  const TestRun run = played(registry, {.workflow = "large"}, [](TestRun& run) { run.play(); });
  EXPECT_EQ(run.result(), Json({"record_too_large", "payload_invalid"}));
}

TEST(Workflow, ScopesAndNamesGiveEachStepItsOwnPath) {
  Registry registry;
  registry.add("paths", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    (void)co_await ctx.step("a/b", "echo", nullptr);
    (void)co_await ctx.scope(
        "a", [](Context& c) -> Task<Result<Json>> { co_return co_await c.step("b", "echo", nullptr); });
    (void)co_await ctx.scope(
        "a", [](Context& c) -> Task<Result<Json>> { co_return co_await c.step("b", "echo", nullptr); });
    std::vector<Branch<Result<Json>>> one;
    one.push_back([](Context& c) -> Task<Result<Json>> { co_return co_await c.step("b", "echo", nullptr); });
    (void)co_await ctx.all(std::move(one));
    (void)co_await ctx.step("[0]", "echo", nullptr);
    co_return nullptr;
  });
  const TestRun run = played(registry, {.workflow = "paths"}, [](TestRun& run) {
    run.activity("echo", [](const Json& in) { return in; });
    run.play();
  });
  std::vector<std::string> paths;
  for (const auto& event : run.events()) {
    if (const auto* step = std::get_if<run::StepScheduled>(&event)) paths.push_back(step->path);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"0/a%2Fb#0", "0/a/b#0", "0/a/b#1", "0/[0]/b#0", "0/%5B0%5D#0"}));
}

TEST(Workflow, AHundredThousandStepsAndDeepCallsLeaveTheStackAlone) {
  struct Deep {
    static Task<int> dive(int depth) { co_return depth == 0 ? 0 : 1 + co_await dive(depth - 1); }
  };
  static std::ptrdiff_t grown = 0;  // not of the workflow: addresses differ at replay
  Registry registry;
  registry.add("long", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    char* const here = static_cast<char*>(__builtin_frame_address(0));
    for (int i = 0; i < 100'000; ++i) {
      auto done = co_await ctx.step("s", "a", nullptr);
      if (!done) co_return std::unexpected(done.error());
      grown = std::max(grown, std::abs(here - static_cast<char*>(__builtin_frame_address(0))));
    }
    co_return co_await Deep::dive(2000);
  });
  TestRun run(registry, {.workflow = "long"});
  run.activity("a", [](const Json&) { return Json(nullptr); });
  run.play();
  ASSERT_TRUE(run.result()) << run.state().stuck.message;
  EXPECT_EQ(run.result(), Json(2000));
  EXPECT_EQ(run.check_replay(), "");  // the rebuild drains 100,000 events in one call
  EXPECT_LT(grown, 64 * 1024);
}

}  // namespace
}  // namespace sandglass::engine::workflow
