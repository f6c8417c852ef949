#include "activities/operations/effect_operations.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "activities/gateway/http_tool.h"

namespace sandglass::activities::operations {
namespace {

/// The outside, told by the test what happens.
struct ScriptedExecutor final : core::EffectExecutor {
  void submit(core::EffectIntent intent) override { intents.push_back(std::move(intent)); }
  void poll(std::vector<core::EffectResult>& out) override {
    for (auto& result : ready) out.push_back(std::move(result));
    ready.clear();
  }
  std::int64_t alone_since_ms() const override { return alone_since; }
  void answer(std::uint64_t id, std::uint32_t status, std::string body = {}) {
    ready.push_back(
        {.id = id, .outcome = core::Outcome::done, .http_status = status, .body = std::move(body)});
  }
  std::vector<core::EffectIntent> intents;
  std::vector<core::EffectResult> ready;
  std::int64_t alone_since = 0;
};

struct StillClock final : base::Clock {
  base::WallMs wall_ms() const override { return ns / 1'000'000; }
  base::MonotonicNs monotonic_ns() const override { return ns; }
  std::int64_t ns = 0;
};

struct Operations : testing::Test {
  core::ActivityCall call(int number, std::string host = "a") {
    core::ActivityCall made{.stream = core::StreamId::named(core::StreamKind::run, "r"),
                            .name = "http_request",
                            .path = "op" + std::to_string(number),
                            .key = "key" + std::to_string(number),
                            .token = {.epoch = 1, .attempt = 1, .counter = 1}};
    made.input = std::make_shared<const core::Slot>(
        core::Slot{core::Encoding::json, R"({"method":"POST","url":"http://)" + host +
                                             R"(/pulls","body":"x","probe":{"url":"http://)" + host +
                                             R"(/by/{key}"}})"});
    made.start_to_close_ms = 3000;
    return made;
  }
  /// Asks for a place and returns whether it was given at once; later answers land in `given`.
  bool reserve(int number, std::string host = "a") {
    operations->reserve(call(number, std::move(host)), [this, number](core::ActivityResult result) {
      (result.outcome == core::Outcome::done ? given : refused).push_back(number);
    });
    return !given.empty() && given.back() == number;
  }
  void perform(int number, std::string host = "a") {
    operations->perform(call(number, std::move(host)), 1000,
                        [this](core::ActivityResult result) { last = std::move(result); });
  }

  ScriptedExecutor executor;
  StillClock clock;
  EffectTools tools{{"http_request", std::make_shared<gateway::HttpTool>()}};
  std::optional<EffectOperations> operations{
      std::in_place, executor, tools, clock,
      EffectLimits{.in_flight = 3, .per_target = 2, .unused_ms = 1000}};
  std::vector<int> given, refused;
  std::optional<core::ActivityResult> last;
};

TEST_F(Operations, AnIntentCarriesPermitCutOffAndTheKeyAndIsSentOnce) {
  EXPECT_TRUE(reserve(1));
  EXPECT_TRUE(executor.intents.empty()) << "a place is no permission to send";
  perform(1);
  ASSERT_EQ(executor.intents.size(), 1U);
  const core::EffectIntent& intent = executor.intents[0];
  EXPECT_EQ(intent.permit_ms, 1000);
  EXPECT_EQ(intent.attempt_timeout_ms, 3000);
  EXPECT_EQ(intent.headers.back(), (std::pair<std::string, std::string>("Idempotency-Key", "key1")));
  executor.answer(intent.id, 201, R"({"number":7})");
  operations->poll();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->outcome, core::Outcome::done);
  EXPECT_NE(last->bytes.find(R"("status":201)"), std::string::npos);
  operations->poll();
  EXPECT_EQ(executor.intents.size(), 1U);
}

TEST_F(Operations, PlacesAreLimitedInAllAndForEachTarget) {  // J16
  EXPECT_TRUE(reserve(1));
  EXPECT_TRUE(reserve(2));
  EXPECT_FALSE(reserve(3)) << "the third to one target waits";
  EXPECT_TRUE(reserve(4, "b")) << "another target goes ahead";
  EXPECT_FALSE(reserve(5, "c")) << "the limit of all is reached";
  perform(1);
  executor.answer(executor.intents[0].id, 201);
  operations->poll();
  EXPECT_EQ(given, (std::vector<int>{1, 2, 4, 3}));
}

TEST_F(Operations, ACancelledWaitEndsAsNotDoneAndAHeldPlaceIsGivenOn) {
  for (const int number : {1, 2, 3}) reserve(number);
  operations->cancel(call(3).stream, "op3", call(3).token);
  EXPECT_EQ(refused, std::vector<int>{3});
  EXPECT_FALSE(reserve(6));
  operations->cancel(call(1).stream, "op1", call(1).token);
  EXPECT_EQ(given.back(), 6);
}

TEST_F(Operations, APlaceThatIsNeverUsedGoesToAnother) {
  for (const int number : {1, 2, 3}) reserve(number);
  clock.ns = 999 * 1'000'000LL;
  operations->poll();
  EXPECT_EQ(given.size(), 2U);
  clock.ns = 1000 * 1'000'000LL;
  operations->poll();
  EXPECT_EQ(given.back(), 3);
}

TEST_F(Operations, AProbeAsksUnderTheSameKeyAndNeedsNoPlace) {
  for (const int number : {1, 2}) reserve(number);
  std::optional<core::ActivityResult> answer;
  operations->probe_activity("http_request")->start(call(9), [&](core::ActivityResult result) {
    answer = std::move(result);
  });
  ASSERT_EQ(executor.intents.size(), 1U);
  EXPECT_EQ(executor.intents[0].method, "GET");
  EXPECT_EQ(executor.intents[0].url, "http://a/by/key9");
  executor.answer(executor.intents[0].id, 404);
  operations->poll();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->code, base::Code::effect_not_done);
}

TEST_F(Operations, NotDoneIsCredibleOnlyIfAllHadBeenQuietLongEnoughWhenTheProbeWasSent) {  // J16
  const auto credible = [&](std::int64_t answered_after_ms) {
    std::optional<core::ActivityResult> answer;
    operations->probe_activity("http_request")->start(call(1), [&](core::ActivityResult result) {
      answer = std::move(result);
    });
    const std::uint64_t id = executor.intents.back().id;
    clock.ns += answered_after_ms * 1'000'000;
    executor.answer(id, 404);
    operations->poll();
    EXPECT_EQ(answer->code, base::Code::effect_not_done);
    return answer->retryable;
  };
  const auto pass_ms = [&](std::int64_t ms) { clock.ns += ms * 1'000'000; };
  clock.ns = 5'000'000'000;
  executor.alone_since = 1000;  // since this process's executor: 4 s, and the target has 5 to settle
  EXPECT_FALSE(credible(30'000)) << "a slow answer does not make the look a later one";
  EXPECT_TRUE(credible(0));
  perform(1);
  pass_ms(60'000);
  EXPECT_FALSE(credible(0)) << "at work under that key";
  executor.answer(executor.intents[2].id, 503);  // unknown
  operations->poll();
  pass_ms(4999);
  EXPECT_FALSE(credible(0)) << "since the attempt's end";
  pass_ms(1);
  EXPECT_TRUE(credible(0));
  executor.alone_since = clock.ns / 1'000'000 - 4999;
  EXPECT_FALSE(credible(0)) << "since the executor's replacement";
  pass_ms(1);
  EXPECT_TRUE(credible(0));
}

TEST_F(Operations, WhatIsNoToolOrNoRequestIsRefusedBeforeAnythingIsSent) {
  core::ActivityCall other = call(1);
  other.name = "no_such_tool";
  operations->reserve(other, [&](core::ActivityResult result) { last = std::move(result); });
  EXPECT_EQ(last->code, base::Code::tool_unknown);
  other = call(1);
  other.input = std::make_shared<const core::Slot>(
      core::Slot{core::Encoding::json, R"({"method":"POST","url":"http://a/","headers":{"Cookie":"x"}})"});
  operations->perform(other, 1000, [&](core::ActivityResult result) { last = std::move(result); });
  EXPECT_EQ(last->outcome, core::Outcome::not_done);
  EXPECT_EQ(last->code, base::Code::arguments_invalid);
  EXPECT_TRUE(executor.intents.empty());
}

}  // namespace
}  // namespace sandglass::activities::operations
