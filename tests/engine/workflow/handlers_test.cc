// Queries and updates in workflow code: what they may do, and that replay does the same.
#include <gtest/gtest.h>

#include <limits>

#include "engine/workflow/checkpoint.h"
#include "engine/workflow/testing.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;
using run::RunStatus;

/// A basket that updates fill until it is closed; `packed` items are in steps.
Task<Result<Json>> basket(Context& ctx, Json) {
  std::vector<std::string> items;
  bool closed = false;
  const auto look = ctx.on_query("items", [&](const Json& input) -> Result<Json> {
    if (input.is_null()) return Json(items);
    if (!input.is_number_unsigned()) return base::fail(Code::invalid_argument, "which one?");
    return Json(items.at(input.get<std::size_t>()));
  });
  const auto add = ctx.on_update(
      "add",
      [&](const Json& input) -> Status {
        if (input.at("item").get<std::string>().empty()) return base::fail(Code::invalid_argument, "no item");
        return {};
      },
      [&](Context& inner, Json input) -> Task<Result<Json>> {
        auto packed = co_await inner.step("pack", "pack", input);
        if (!packed) co_return std::unexpected(packed.error());
        items.push_back(packed->get<std::string>());
        co_return Json(items.size());
      });
  const auto close = ctx.on_update("close", {}, [&](Context&, Json) -> Task<Result<Json>> {
    closed = true;
    co_return nullptr;
  });
  if (auto waited = co_await ctx.until([&] { return closed; }); !waited)
    co_return std::unexpected(waited.error());
  if (auto done = co_await ctx.updates_done(); !done) co_return std::unexpected(done.error());
  co_return Json(items);
}

Registry baskets() {
  Registry registry;
  registry.add("basket", "1", basket);
  return registry;
}

void can_pack(TestRun& run) {
  run.activity(
      "pack", [](const Json& input) -> Result<Json> { return "packed " + input["item"].get<std::string>(); });
}

class Handling : public testing::TestWithParam<bool> {
 protected:
  Registry registry_ = baskets();
  TestRun run_{registry_, {.workflow = "basket", .evict_everything = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(LiveAndRebuilt, Handling, testing::Bool());

TEST_P(Handling, AnUpdateTakesStepsAndHasAResultAndAQuerySeesWhatItDid) {
  can_pack(run_);
  const auto first = run_.update("add", {{"item", "cup"}});
  const auto second = run_.update("add", {{"item", "pot"}});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(run_.update_result(*first).error().code, Code::unavailable);
  EXPECT_EQ(run_.query("items"), Json::array());
  run_.play();
  EXPECT_EQ(run_.update_result(*first), Json(1));
  EXPECT_EQ(run_.update_result(*second), Json(2));
  EXPECT_EQ(run_.query("items"), Json({"packed cup", "packed pot"}));
  ASSERT_TRUE(run_.update("close"));
  EXPECT_EQ(run_.result(), Json({"packed cup", "packed pot"}));
  EXPECT_EQ(run_.check_replay(), "");
}

TEST_P(Handling, ARunThatHasEndedAnswersWithWhatItsCodeSaidLast) {
  can_pack(run_);
  ASSERT_TRUE(run_.update("add", {{"item", "cup"}}));
  run_.play();
  ASSERT_TRUE(run_.update("close"));
  ASSERT_EQ(run_.status(), RunStatus::completed);
  const std::size_t records = run_.history().size();
  EXPECT_EQ(run_.query("items"), Json({"packed cup"}));
  EXPECT_EQ(run_.query("items", 0), Json("packed cup"));
  EXPECT_EQ(run_.query("price").error().code, Code::query_unknown);
  EXPECT_EQ(run_.update("add", {{"item", "x"}}).error().code, Code::run_closed);
  EXPECT_EQ(run_.history().size(), records);
}

TEST_P(Handling, ATerminatedRunAnswersFromWhereItWas) {
  can_pack(run_);
  ASSERT_TRUE(run_.update("add", {{"item", "cup"}}));
  run_.play();
  ASSERT_TRUE(run_.give(run::Terminate{"enough"}));
  EXPECT_EQ(run_.query("items"), Json({"packed cup"}));
}

TEST_P(Handling, WhatAQueryThrowsOrReturnsAsAnErrorIsItsCallersAlone) {
  can_pack(run_);
  const std::size_t records = run_.history().size();
  EXPECT_EQ(run_.query("items", "nonsense").error().code, Code::invalid_argument);
  const auto thrown = run_.query("items", 7);  // at() throws
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, Code::query_failed);
  EXPECT_NE(thrown.error().message.find("threw"), std::string::npos) << thrown.error().message;
  const auto unknown = run_.query("price");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::query_unknown);
  EXPECT_NE(unknown.error().message.find("items"), std::string::npos) << unknown.error().message;
  EXPECT_EQ(run_.history().size(), records);
  EXPECT_EQ(run_.status(), RunStatus::running);
  EXPECT_EQ(run_.query("items"), Json::array()) << "the next one is answered again";
}

TEST_P(Handling, AnUpdateThatIsRefusedOrUnknownLeavesNoHistory) {
  const std::size_t records = run_.history().size();
  const auto refused = run_.update("add", {{"item", ""}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::update_refused);
  EXPECT_NE(refused.error().message.find("no item"), std::string::npos);
  const auto unknown = run_.update("remove", {{"item", "cup"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::update_unknown);
  EXPECT_NE(unknown.error().message.find("add, close"), std::string::npos) << unknown.error().message;
  EXPECT_EQ(run_.history().size(), records);
}

// FR-64
TEST_P(Handling, AnUpdateOfAnUnexpectedShapeIsAnsweredAndTheRunGoesOn) {
  const auto shapeless = run_.update("add", "not an object");  // the check throws
  ASSERT_FALSE(shapeless);
  EXPECT_EQ(shapeless.error().code, Code::update_failed);
  run_.activity("pack", [](const Json&) -> Result<Json> { return 7; });  // get<std::string> throws
  const auto accepted = run_.update("add", {{"item", "cup"}});
  ASSERT_TRUE(accepted);
  run_.play();
  const auto answer = run_.update_result(*accepted);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::update_failed);
  EXPECT_NE(answer.error().message.find("threw"), std::string::npos) << answer.error().message;
  can_pack(run_);
  ASSERT_TRUE(run_.update("add", {{"item", "pot"}}));
  run_.play();
  ASSERT_TRUE(run_.update("close"));
  EXPECT_EQ(run_.result(), Json({"packed pot"}));
  EXPECT_EQ(run_.check_replay(), "");
}

TEST_P(Handling, UpdatesSurviveARestartBetweenAcceptanceAndAnswer) {
  run_.hold("pack");
  const auto accepted = run_.update("add", {{"item", "cup"}});
  ASSERT_TRUE(accepted);
  run_.play();
  ASSERT_EQ(run_.held_paths(), std::vector<std::string>{"0/[update 1]/pack#0"});
  run_.restart(registry_);
  run_.play();
  ASSERT_TRUE(run_.finish_held("0/[update 1]/pack#0", Json("cup")));
  EXPECT_EQ(run_.update_result(*accepted), Json(1));
  EXPECT_EQ(run_.check_replay(), "");
}

TEST_P(Handling, OpenUpdatesOfATerminatedRunAreToldToBeAbandoned) {
  run_.hold("pack");
  const auto accepted = run_.update("add", {{"item", "cup"}});
  ASSERT_TRUE(accepted);
  run_.play();
  ASSERT_TRUE(run_.give(run::Terminate{"enough"}));
  EXPECT_EQ(run_.update_result(*accepted).error().code, Code::update_abandoned);
  EXPECT_TRUE(run_.state().updates.empty());
}

TEST_P(Handling, ACancelledRunsUpdatesAreAnswered) {
  run_.hold("pack");
  const auto accepted = run_.update("add", {{"item", "cup"}});
  ASSERT_TRUE(accepted);
  run_.play();
  ASSERT_TRUE(run_.cancel());
  EXPECT_EQ(run_.status(), RunStatus::cancelled);
  EXPECT_FALSE(run_.update_result(*accepted));
  EXPECT_EQ(run_.check_replay(), "");
}

/// Ends at its first signal, whatever is being carried out.
Task<Result<Json>> hasty(Context& ctx, Json) {
  int left = 3;
  const auto slow = ctx.on_update("slow", {}, [&](Context& inner, Json) -> Task<Result<Json>> {
    if (co_await inner.updates_done()) co_return "it has waited for itself";
    auto slept = co_await inner.step("work", "work", nullptr);
    co_return Json(left);
  });
  (void)co_await ctx.wait_signal("end");
  co_return "ended";
}

TEST(Updates, ThatAreOpenWhenTheWorkflowReturnsAreAbandonedAndItsCodeIsNotRunAgain) {
  for (const bool evict : {false, true}) {
    Registry registry;
    registry.add("hasty", "1", hasty);
    TestRun run(registry, {.workflow = "hasty", .evict_everything = evict});
    run.hold("work");
    const auto first = run.update("slow");
    const auto second = run.update("slow");
    ASSERT_TRUE(first && second);
    run.play();
    ASSERT_TRUE(run.signal("end"));
    EXPECT_EQ(run.result(), Json("ended"));
    for (const auto number : {*first, *second}) {
      const auto answer = run.update_result(number);
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, Code::update_abandoned);
    }
    EXPECT_EQ(run.check_replay(), "");
  }
}

Task<Result<Json>> meddler(Context& ctx, Json) {
  const auto ask = ctx.on_query("ask", [&](const Json& input) -> Result<Json> {
    const auto how = input.get<std::string>();
    if (how == "phase") ctx.set_phase(run::Phase::running);
    if (how == "chance") return ctx.random();
    if (how == "patch") return ctx.patched("new");
    if (how == "send") (void)ctx.send("note", ctx.info().stream, {});
    if (how == "step") (void)ctx.step("s", "work", nullptr);  // never runs: nobody awaits it
    return "looked";
  });
  const auto take = ctx.on_update(
      "take", [&](const Json&) -> Status { return ctx.random() == 0 ? Status{} : Status{}; },
      [](Context&, Json) -> Task<Result<Json>> { co_return nullptr; });
  auto signal = co_await ctx.wait_signal("end");
  co_return ctx.random() % 2 + 1 > 0 ? Json("ended") : Json();
}

TEST(Queries, ThatAskForSomethingAreErrorsAndNothingComesOfIt) {
  Registry registry;
  registry.add("meddler", "1", meddler);
  TestRun run(registry, {.workflow = "meddler"});
  for (const char* how : {"phase", "chance", "patch", "send"}) {
    const auto answer = run.query("ask", how);
    ASSERT_FALSE(answer) << how;
    EXPECT_EQ(answer.error().code, Code::query_failed) << how;
    EXPECT_NE(answer.error().message.find("history"), std::string::npos) << answer.error().message;
  }
  EXPECT_EQ(run.query("ask", "step"), Json("looked"));
  const auto taken = run.update("take");
  ASSERT_FALSE(taken) << "a check may not ask for anything either";
  EXPECT_EQ(taken.error().code, Code::update_failed);
  EXPECT_EQ(run.history().size(), 1U);
  ASSERT_TRUE(run.signal("end"));
  EXPECT_EQ(run.result(), Json("ended"));
  EXPECT_EQ(run.check_replay(), "");
}

TEST(Queries, OfAStuckRunSayThatItIsStuck) {
  Registry registry;
  registry.add("thrower", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    const auto q = ctx.on_query("q", [](const Json&) -> Result<Json> { return 1; });
    (void)co_await ctx.wait_signal("go");
    throw std::runtime_error("broken");
  });
  TestRun run(registry, {.workflow = "thrower"});
  EXPECT_EQ(run.query("q"), Json(1));
  ASSERT_TRUE(run.signal("go"));
  ASSERT_EQ(run.status(), RunStatus::stuck);
  EXPECT_EQ(run.query("q").error().code, Code::run_stuck);
  EXPECT_EQ(run.update("u").error().code, Code::run_stuck);
}

// FR-64
TEST(Signals, OfAnUnexpectedShapeParkTheRunAndAreDeliveredToRepairedCode) {
  const auto version = [](bool repaired) {
    Registry registry;
    registry.add("counter", "1", [repaired](Context& ctx, Json) -> Task<Result<Json>> {
      auto signal = co_await ctx.wait_signal("count");
      if (!signal) co_return std::unexpected(signal.error());
      if (repaired && !signal->contains("by")) co_return "had no number";
      co_return signal->at("by").get<int>();
    });
    return registry;
  };
  const Registry broken = version(false);
  TestRun run(broken, {.workflow = "counter"});
  ASSERT_TRUE(run.signal("count", {{"number", 1}}));
  ASSERT_EQ(run.status(), RunStatus::stuck);
  EXPECT_EQ(run.state().stuck.code, Code::workflow_threw);
  EXPECT_NE(run.state().stuck.message.find("by"), std::string::npos) << run.state().stuck.message;
  EXPECT_EQ(run.state().signals.size(), 1U) << "nobody has taken it";
  const Registry repaired = version(true);
  run.restart(repaired);
  ASSERT_TRUE(run.resume());
  EXPECT_EQ(run.result(), Json("had no number"));
}

struct Tally {
  int sum = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(sum);
  }
};

TEST(Attributes, AreRecordedInASlotAndRepeatedByReplay) {
  Registry registry;
  registry.add("order", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    const auto set = ctx.set_attributes({{"order", "A-17"},
                                         {"amount", std::int64_t{12}},
                                         {"due", run::AttributeTime{ctx.now_ms()}},
                                         {"paid", false}});
    if (!set) co_return std::unexpected(set.error());
    (void)co_await ctx.wait_signal("paid");
    for (const run::Attributes& wrong :
         {run::Attributes{{"a b", true}}, run::Attributes{{"", true}},
          run::Attributes{{"long", std::string(run::kLongestAttribute + 1, 'x')}},
          run::Attributes{{"none", std::numeric_limits<double>::quiet_NaN()}}}) {
      if (ctx.set_attributes(wrong)) co_return "a wrong one was taken";
    }
    (void)ctx.set_attributes({{"paid", true}});
    co_return "done";
  });
  TestRun run(registry, {.workflow = "order"});
  ASSERT_EQ(run.count<run::AttributesSet>(), 1U);
  const core::PayloadRef first = run.state().attributes;
  EXPECT_EQ(Json::parse(run.history()[first.seq - 1].slots[first.slot]->bytes),
            Json::parse(R"({"amount":{"integer":12},"due":{"time":1700000000000},
                            "order":{"keyword":"A-17"},"paid":{"bool":false}})"));
  ASSERT_TRUE(run.signal("paid"));
  EXPECT_EQ(run.result(), Json("done"));
  EXPECT_EQ(run.count<run::AttributesSet>(), 2U);
  EXPECT_EQ(run.check_replay(), "");
}

/// Adds what updates bring; a checkpoint at every signal.
Task<Result<Json>> tally(Context& ctx, Tally state) {
  const auto read = ctx.on_query("sum", [&](const Json&) -> Result<Json> { return state.sum; });
  const auto add = ctx.on_update("add", {}, [&](Context& inner, Json input) -> Task<Result<Json>> {
    auto checked = co_await inner.step("check", "check", input);
    if (!checked) co_return std::unexpected(checked.error());
    state.sum += checked->get<int>();
    co_return state.sum;
  });
  while (true) {
    auto signal = co_await ctx.wait_signal("save");
    if (!signal) co_return std::unexpected(signal.error());
    if (*signal == "end") co_return state.sum;
    if (*signal == "wait") {
      if (auto done = co_await ctx.updates_done(); !done) co_return std::unexpected(done.error());
    }
    if (auto saved = co_await ctx.checkpoint(state); !saved) co_return std::unexpected(saved.error());
  }
}

Registry tallies() {
  Registry registry;
  add_checkpointing<Tally>(
      registry, "tally", "1", [](const Json&) -> Result<Tally> { return Tally{}; }, tally);
  return registry;
}

TEST(Updates, AreAnsweredBeforeACheckpointThatWaitsForThem) {
  for (const bool evict : {false, true}) {
    const Registry registry = tallies();
    TestRun run(registry, {.workflow = "tally", .evict_everything = evict});
    run.hold("check");
    const auto first = run.update("add", 5);
    ASSERT_TRUE(first);
    run.play();
    ASSERT_TRUE(run.signal("save", "wait"));
    EXPECT_EQ(run.count<run::Checkpointed>(), 0U);
    ASSERT_TRUE(run.finish_held("0/[update 1]/check#0", Json(5)));
    EXPECT_EQ(run.update_result(*first), Json(5));
    EXPECT_EQ(run.count<run::Checkpointed>(), 1U);
    run.restart(registry);
    EXPECT_EQ(run.query("sum"), Json(5));
    const auto second = run.update("add", 2);
    ASSERT_TRUE(second);
    EXPECT_EQ(*second, 2U);
    run.play();
    ASSERT_TRUE(run.finish_held("1/[update 2]/check#0", Json(2)));
    EXPECT_EQ(run.update_result(*second), Json(7));
    ASSERT_TRUE(run.signal("save", "end"));
    EXPECT_EQ(run.result(), Json(7));
    EXPECT_EQ(run.query("sum"), Json(7));
    EXPECT_EQ(run.check_replay(), "");
  }
}

TEST(Updates, ThatAreOpenMakeACheckpointAnError) {
  const Registry registry = tallies();
  TestRun run(registry, {.workflow = "tally"});
  run.hold("check");
  const auto open = run.update("add", 5);
  ASSERT_TRUE(open);
  run.play();
  ASSERT_TRUE(run.signal("save", "now"));
  EXPECT_EQ(run.status(), RunStatus::failed);
  EXPECT_EQ(run.state().end_code, Code::checkpoint_misplaced);
  EXPECT_EQ(run.update_result(*open).error().code, Code::update_abandoned);
  EXPECT_EQ(run.check_replay(), "");
}

TEST(Updates, ThatNewCodeDoesNotTakeAnyMoreParkTheRun) {
  const Registry with = baskets();
  TestRun run(with, {.workflow = "basket"});
  run.hold("pack");
  const auto open = run.update("add", {{"item", "cup"}});
  ASSERT_TRUE(open);
  run.play();
  Registry without;
  without.add("basket", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    (void)co_await ctx.wait_signal("never");
    co_return nullptr;
  });
  run.restart(without);
  run.play();
  ASSERT_TRUE(run.signal("wake"));
  ASSERT_EQ(run.status(), RunStatus::stuck);
  EXPECT_EQ(run.state().stuck.code, Code::non_determinism);
  EXPECT_NE(run.state().stuck.expected.find("add"), std::string::npos);
  run.restart(with);
  ASSERT_TRUE(run.resume());
  run.play();
  ASSERT_TRUE(run.finish_held("0/[update 1]/pack#0", Json("cup")));
  EXPECT_EQ(run.update_result(*open), Json(1));
}

}  // namespace
}  // namespace sandglass::engine::workflow
