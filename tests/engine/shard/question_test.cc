// Questions to workflow code, and commands that need its consent.
#include <gtest/gtest.h>

#include "tests/support/test_world.h"

namespace sandglass::engine::shard {
namespace {

using base::Code;
using tests::Add;
using tests::test_command;
using tests::test_stream;
using tests::World;

using Said = std::optional<base::Result<std::string>>;

void ask(World& world, const core::StreamId& stream, Said& said) {
  world.set->ask(stream, {.name = "q", .input = nullptr},
                 [&said](base::Result<std::string> answer) { said = std::move(answer); });
}

/// Says how much it has been shown, in all.
void say_what_is_shown(World& world) {
  world.activator->say = [shown = std::size_t{0}](const core::ActivationRequest& request) mutable {
    shown = request.rebuild ? request.turns.size() : shown + request.turns.size();
    return base::Result<std::string>(std::to_string(shown));
  };
}

CommandEnvelope with_consent(const core::StreamId& stream, std::int64_t amount, ReplyFn on_reply) {
  return {.target = stream,
          .command = test_command(Add{"n", amount}),
          .request_id = "u" + std::to_string(amount),
          .request_digest = base::sha256("body"),
          .expected_head = std::nullopt,
          .on_reply = std::move(on_reply),
          .consent = core::Question{.kind = core::Question::Kind::consent, .name = "add", .input = nullptr}};
}

TEST(Questions, AreAnsweredByACoroutineThatHasSeenEverythingAndLeaveNoRecord) {
  World world;
  say_what_is_shown(world);
  const auto stream = test_stream("a");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  Said first;
  ask(world, stream, first);
  ASSERT_TRUE(world.until([&] { return first.has_value(); }));
  EXPECT_EQ(**first, "3");
  EXPECT_EQ(world.activator->rebuilds, 1);
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  Said second;
  ask(world, stream, second);
  ASSERT_TRUE(world.until([&] { return second.has_value(); }));
  EXPECT_EQ(**second, "4");
  EXPECT_EQ(world.activator->rebuilds, 1) << "the live one was shown what is new";
  EXPECT_EQ(world.headers(stream).size(), 4U);
  EXPECT_EQ(world.set->counters().questions, 2U);
  world.settle();
}

TEST(Questions, OfAStreamThatIsNotThereAreNotFound) {
  World world;
  Said said;
  ask(world, test_stream("nobody"), said);
  ASSERT_TRUE(world.until([&] { return said.has_value(); }));
  EXPECT_EQ(said->error().code, Code::not_found);
  EXPECT_EQ(world.activator->questions, 0);
}

// J5
TEST(Questions, AreAnsweredOnceTheHeadThatTheySawIsDurable) {
  World world;
  say_what_is_shown(world);
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.gate->closed = true;
  world.call("undurable", stream, test_command(Add{"n", 1}));
  Said said;
  ask(world, stream, said);
  world.tick(100);
  EXPECT_EQ(world.activator->questions, 1) << "the code was asked";
  EXPECT_FALSE(said.has_value()) << "and what it said has not left";
  world.gate->closed = false;
  ASSERT_TRUE(world.until([&] { return said.has_value(); }));
  EXPECT_EQ(**said, "2");
}

// J5, J6
TEST(Questions, WhoseHeadWasLostAreUnknown) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.gate->closed = true;
  for (core::PartitionId p = 0; p < world.config.partitions; ++p) {
    world.inner->fail_next(p, journal::Completion::unknown);
  }
  world.call("lost", stream, test_command(Add{"n", 1}));
  Said answered, waiting;
  ask(world, stream, answered);
  world.tick(50);
  world.activator->closed = true;
  ask(world, stream, waiting);
  world.tick(5);
  world.gate->closed = false;
  ASSERT_TRUE(world.until([&] { return answered && waiting; }));
  EXPECT_EQ(answered->error().code, Code::outcome_unknown);
  EXPECT_EQ(waiting->error().code, Code::outcome_unknown);
}

TEST(Consent, IsAskedBeforeTheCommandIsDecidedAndNothingComesBetween) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.answers.clear();
  world.activator->closed = true;
  std::optional<base::Result<Reply>> reply;
  world.set->submit(with_consent(stream, 10, [&](base::Result<Reply> one) { reply = std::move(one); }));
  world.call("after", stream, test_command(Add{"n", 100}));
  world.tick(50);
  EXPECT_FALSE(reply.has_value());
  EXPECT_TRUE(world.answers.empty()) << "it waits behind the command that needs consent";
  world.activator->closed = false;
  ASSERT_TRUE(world.until([&] { return reply && !world.answers.empty(); }));
  EXPECT_EQ((*reply)->payload.slot->bytes, "11");
  EXPECT_EQ(world.answers[0].reply->payload.slot->bytes, "111");
}

TEST(Consent, ThatIsRefusedIsTheCommandsRefusalAndLeavesNoRecord) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.activator->say = [](const core::ActivationRequest&) -> base::Result<std::string> {
    return base::fail(Code::update_refused, "no");
  };
  std::optional<base::Result<Reply>> reply;
  world.set->submit(with_consent(stream, 10, [&](base::Result<Reply> one) { reply = std::move(one); }));
  ASSERT_TRUE(world.until([&] { return reply.has_value(); }));
  EXPECT_EQ(reply->error().code, Code::update_refused);
  EXPECT_EQ(world.headers(stream).size(), 1U);
  world.activator->say = nullptr;
  reply.reset();
  world.set->submit(with_consent(stream, 10, [&](base::Result<Reply> one) { reply = std::move(one); }));
  ASSERT_TRUE(world.until([&] { return reply.has_value(); }));
  EXPECT_TRUE(*reply) << "the same request id again is decided: a refusal is no answer";
}

// J19
TEST(Consent, IsNotAskedAgainForARequestThatWasAnswered) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  for (int round = 0; round < 3; ++round) {
    if (round == 2) world.crash();
    std::optional<base::Result<Reply>> reply;
    world.set->submit(with_consent(stream, 10, [&](base::Result<Reply> one) { reply = std::move(one); }));
    ASSERT_TRUE(world.until([&] { return reply.has_value(); }));
    ASSERT_TRUE(*reply) << reply->error().message;
    EXPECT_EQ((*reply)->payload.slot->bytes, "11");
    EXPECT_EQ((*reply)->head, 2U);
    EXPECT_EQ(world.activator->questions, round == 2 ? 0 : 1);
  }
}

}  // namespace
}  // namespace sandglass::engine::shard
