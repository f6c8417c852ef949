// What may leave, and when: J5, J6, J8, J19, J20.
#include <gtest/gtest.h>

#include "tests/support/test_world.h"

namespace sandglass::engine::shard {
namespace {

using base::Code;
using tests::Add;
using tests::test_command;
using tests::test_stream;
using tests::World;

TEST(Release, ACommandIsAnsweredOnceItsRecordIsDurable) {
  World world;
  const auto stream = test_stream("a");
  const auto reply = world.call_now(stream, test_command(Add{"n", 5}));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->head, 1U);
  EXPECT_EQ(reply->payload.slot->bytes, "5");
  EXPECT_EQ(world.headers(stream).size(), 1U);
}

// J5: whoever has seen undurable state hears of it only when it is durable, in batch order.
TEST(Release, RepliesRefusalsReadsAndRepeatsWaitForTheHeadThatTheySaw) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.answers.clear();
  world.gate->closed = true;
  world.call("add", stream, test_command(Add{"n", 2}), "r1", "body");
  world.tick(5);
  world.call("repeat", stream, test_command(Add{"n", 2}), "r1", "body");
  world.call("conflict", stream, test_command(Add{"n", 3}), "r1", "other body");
  world.call("refused", stream, test_command(tests::Refuse{}));
  world.call("head", stream, test_command(Add{"n", 4}), "", "", 1);
  bool read = false;
  world.set->read(stream, [&](base::Result<StreamRead> result) {
    read = true;
    EXPECT_EQ(tests::test_state(*result->state).sum, 3);
    EXPECT_EQ(result->head, 2U);
  });
  world.tick(50);
  EXPECT_TRUE(world.answers.empty()) << world.answers[0].name;
  EXPECT_FALSE(read);
  world.gate->closed = false;
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 5 && read; }));
  EXPECT_EQ(world.answers[0].name, "add");
  EXPECT_EQ(world.answers[1].name, "repeat");
  EXPECT_TRUE(world.answers[1].reply->repeated);
  EXPECT_EQ(world.answers[1].reply->payload.slot->bytes, world.answers[0].reply->payload.slot->bytes);
  EXPECT_EQ(world.answers[2].reply.error().code, Code::request_conflict);
  EXPECT_EQ(world.answers[3].reply.error().code, Code::invalid_argument);
  EXPECT_EQ(world.answers[4].reply.error().code, Code::head_moved);
  EXPECT_EQ(world.set->counters().refused, 3U);
}

TEST(Release, NothingIsDispatchedBeforeItsRecordIsDurable) {
  World world;
  const auto stream = test_stream("a");
  world.gate->closed = true;
  world.call("act", stream, test_command(tests::Act{"p", "echo"}));
  world.tick(50);
  EXPECT_TRUE(world.dispatcher->submitted.empty());
  world.gate->closed = false;
  ASSERT_TRUE(world.until([&] { return !world.dispatcher->submitted.empty(); }));
  EXPECT_EQ(world.answers.size(), 1U);
}

// J6, FR-21: whatever was decided and is not known to be durable ends as "unknown", for everybody who waits.
// An owner that was fenced off stops there.
TEST(Release, AnUnknownAppendEndsTheOwnershipAndTellsEveryWaitingCaller) {
  for (const auto completion : {journal::Completion::unknown, journal::Completion::fenced}) {
    World world;
    const auto stream = test_stream("a");
    ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
    world.answers.clear();
    world.gate->closed = true;
    for (core::PartitionId p = 0; p < world.config.partitions; ++p) world.inner->fail_next(p, completion);
    world.call("decided", stream, test_command(Add{"n", 2}), "r1");
    world.tick(5);
    world.call("refused", stream, test_command(tests::Refuse{}));
    world.tick(5);
    world.call("waiting", test_stream("b"), test_command(Add{"n", 1}));
    bool read_answered = false;
    world.set->read(stream, [&](base::Result<StreamRead> result) {
      read_answered = true;
      EXPECT_EQ(result.error().code, Code::outcome_unknown);
    });
    world.gate->closed = false;
    ASSERT_TRUE(world.until([&] { return world.set->lost().has_value(); }));
    EXPECT_EQ(world.set->lost()->code,
              completion == journal::Completion::fenced ? Code::journal_fenced : Code::outcome_unknown);
    ASSERT_EQ(world.answers.size(), 3U);
    for (const auto& answer : world.answers)
      EXPECT_EQ(answer.reply.error().code, Code::outcome_unknown) << answer.name;
    EXPECT_TRUE(read_answered);
    world.call("later", stream, test_command(Add{"n", 1}));
    EXPECT_EQ(world.answers.back().reply.error().code, Code::outcome_unknown);

    // The caller repeats with the same id, and is applied once, whatever had become of the first.
    world.crash();
    const auto repeated = world.call_now(stream, test_command(Add{"n", 2}), "r1");
    ASSERT_TRUE(repeated) << repeated.error().message;
    EXPECT_EQ(world.state_of(stream).sum, 3);
  }
}

// J8, FR-27: of two that write on the same head one is refused.
TEST(Release, AnExpectedHeadIsComparedWithTheDecidedHead) {
  World world;
  const auto stream = test_stream("a");
  EXPECT_TRUE(world.call_now(stream, test_command(Add{"n", 1}), "", "", 0));
  EXPECT_TRUE(world.call_now(stream, test_command(Add{"n", 1}), "", "", 1));
  const auto refused = world.call_now(stream, test_command(Add{"n", 1}), "", "", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::head_moved);
  EXPECT_EQ(world.state_of(stream).sum, 2);
}

// J19, FR-13, FR-14: the row is read back after eviction and restart alike; a mismatch is told first, always.
TEST(Release, ARequestIdIsAppliedOnceForEver) {
  World world(3, {.partitions = 2, .max_resident = 1});
  const auto stream = test_stream("a");
  const auto first = world.call_now(stream, test_command(Add{"n", 7}), "id", "body");
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->repeated);
  for (int round = 0; round < 3; ++round) {
    for (int other = 0; other < 20; ++other) {
      ASSERT_TRUE(world.call_now(test_stream("b" + std::to_string(other)), test_command(Add{"n", 1})));
    }
    const auto again = world.call_now(stream, test_command(Add{"n", 7}), "id", "body");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(again->repeated);
    EXPECT_EQ(again->head, first->head);
    EXPECT_EQ(again->payload.slot->bytes, "7");
    EXPECT_EQ(again->payload.digest, first->payload.digest);
    EXPECT_EQ(world.call_now(stream, test_command(Add{"n", 8}), "id", "other").error().code,
              Code::request_conflict);
    world.crash();
  }
  EXPECT_EQ(world.state_of(stream).sum, 7);
  EXPECT_GT(world.set->counters().repeated + 1, 0U);
}

TEST(Release, TooManyWaitingCallsAreRefusedAtOnce) {
  World world(1, {.partitions = 1, .max_waiting = 3});
  for (int i = 0; i < 5; ++i)
    world.call("c" + std::to_string(i), test_stream("a"), test_command(Add{"n", 1}));
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 5; }));
  int overloaded = 0;
  for (const auto& answer : world.answers) {
    if (!answer.reply) overloaded += answer.reply.error().code == Code::overloaded ? 1 : 0;
  }
  EXPECT_EQ(overloaded, 2);
  EXPECT_EQ(world.state_of(test_stream("a")).sum, 3);
}

// J9: a step in mid-run is one record and no other row; many streams share one sync.
TEST(Release, CommandsOfManyStreamsShareABatch) {
  World world(1, {.partitions = 1});
  for (int i = 0; i < 200; ++i) {
    world.call("c", test_stream("s" + std::to_string(i)), test_command(tests::Send{test_stream("x"), "c"}));
  }
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 200; }));
  EXPECT_LT(world.gate->batches, 40U);
}

TEST(Release, FollowersGetEachDurableRecordOnceInOrderAndWaitForNews) {
  World world;
  const auto stream = test_stream("a");
  for (int i = 0; i < 5; ++i) world.call("c", stream, test_command(Add{"n", i}));
  std::vector<std::uint64_t> seen;
  std::function<void()> follow = [&] {
    world.set->follow(stream, seen.size() + 1, 2, [&](base::Result<std::vector<core::StoredRecord>> records) {
      ASSERT_TRUE(records);
      EXPECT_LE(records->size(), 2U);
      for (const auto& record : *records) seen.push_back(record.seq);
      follow();
    });
  };
  follow();
  ASSERT_TRUE(world.until([&] { return seen.size() == 5; }));
  world.tick(50);
  world.gate->closed = true;
  world.call("c", stream, test_command(Add{"n", 9}));
  world.tick(3);
  world.gate->closed = false;
  ASSERT_TRUE(world.until([&] { return seen.size() == 6; }));
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace sandglass::engine::shard
