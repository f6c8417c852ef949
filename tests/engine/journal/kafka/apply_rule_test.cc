// The apply rule (J26): each of its checks, and random histories of owners that take over from each other.
#include "engine/journal/kafka/apply_rule.h"

#include <gtest/gtest.h>

#include "engine/base/draw.h"
#include "tests/engine/journal/kafka/history.h"
#include "tests/engine/journal/kafka/model_log.h"

namespace sandglass::engine::journal::kafka {
namespace {

TEST(ApplyRule, RecordsApplyInOrderAndAgainTheyAreSkipped) {
  HistoryWriter writer;
  std::vector<Message> messages = {writer.begin_epoch(1).message, writer.record("a").message,
                                   writer.record("b").message, writer.begin_epoch(2).message,
                                   writer.record("c").message};
  Follower follower;
  for (const Message& message : messages) EXPECT_EQ(follower.take(message).verdict, Verdict::apply);
  for (const Message& message : messages) EXPECT_EQ(follower.take(message).verdict, Verdict::skip);
  EXPECT_EQ(follower.rule().head().sequence, 5u);
  EXPECT_EQ(follower.rule().head().epoch, 2u);
  EXPECT_EQ(follower.rule().head().chain, writer.head().chain);
  EXPECT_EQ(follower.rule().ignored(), 0u);
}

TEST(ApplyRule, FencesAndFillersPass) {
  Follower follower;
  EXPECT_EQ(follower.take(encode_fence(kJournal, "n")).verdict, Verdict::pass);
  EXPECT_EQ(follower.take(encode_filler(kJournal)).verdict, Verdict::pass);
}

TEST(ApplyRule, WhatIsNotOfThisJournalIsIgnoredAndCounted) {
  Follower follower;
  EXPECT_EQ(follower.take({.offset = 0, .key = "k", .value = "v"}).verdict, Verdict::ignore);
  EXPECT_EQ(follower.take(encode_fence("another journal", "n")).verdict, Verdict::ignore);
  HistoryWriter writer;
  Message other = writer.begin_epoch(9).message;
  for (Header& header : other.headers) {
    if (header.name == "sg.journal") header.value = "another journal";
  }
  EXPECT_EQ(follower.take(other).verdict, Verdict::ignore);
  EXPECT_EQ(follower.rule().ignored(), 3u);
  EXPECT_EQ(follower.rule().highest_epoch(), 0u) << "another journal's epoch counted";
}

// FR-106: it moves no position either.
TEST(ApplyRule, AFencedOwnersLateRecordIsIgnoredWhateverItsSequence) {
  HistoryWriter writer;
  const Message begin = writer.begin_epoch(1).message;
  const Message shared = writer.record("a").message;
  HistoryWriter old = writer;
  const Message late = old.record("late").message;
  const Message later = old.record("later").message;
  Follower follower;
  for (const Message& message : {begin, shared, writer.begin_epoch(2).message, writer.record("b").message}) {
    ASSERT_EQ(follower.take(message).verdict, Verdict::apply);
  }
  EXPECT_EQ(follower.take(late).verdict, Verdict::ignore);  // its sequence was taken by epoch 2
  EXPECT_EQ(follower.take(later).verdict, Verdict::ignore);
  old.record("far");
  EXPECT_EQ(follower.take(old.record("further").message).verdict, Verdict::ignore);
  EXPECT_EQ(follower.take(shared).verdict, Verdict::skip) << "published again with its old epoch";
  EXPECT_EQ(follower.rule().ignored(), 3u);
}

TEST(ApplyRule, AnotherHistoryDiverges) {
  HistoryWriter writer;
  const Message begin = writer.begin_epoch(1).message;
  HistoryWriter other = writer;
  const Message mine = writer.record("mine").message;
  const Message theirs = other.record("theirs").message;
  {
    Follower follower;
    follower.take(begin);
    follower.take(mine);
    EXPECT_EQ(follower.take(theirs).verdict, Verdict::diverged) << "another record of the same sequence";
  }
  {
    Follower follower;
    follower.take(begin);
    follower.take(mine);
    const Judgement judgement = follower.take(other.record("after theirs").message);
    EXPECT_EQ(judgement.verdict, Verdict::diverged) << "it follows another head";
    EXPECT_NE(judgement.why.find("sequence 3 of epoch 1"), std::string::npos) << judgement.why;
    EXPECT_EQ(follower.rule().head().sequence, 2u);
  }
}

TEST(ApplyRule, ARecordThatCannotBeReadDivergesAndIsNeverEqual) {
  HistoryWriter writer;
  const Message begin = writer.begin_epoch(1).message;
  Message damaged = writer.record("a").message;
  damaged.value.back() ^= 1;
  Follower follower;
  follower.take(begin);
  EXPECT_EQ(follower.take(damaged).verdict, Verdict::diverged);
  Message old = begin;
  old.value.back() ^= 1;
  EXPECT_EQ(follower.take(old).verdict, Verdict::diverged);
}

TEST(ApplyRule, AnEpochThatNobodyBeganDiverges) {
  HistoryWriter writer({.sequence = 0, .chain = genesis().chain, .epoch = 5});
  Follower follower;
  EXPECT_EQ(follower.take(writer.record("a").message).verdict, Verdict::diverged);
  HistoryWriter again;
  Follower second;
  second.take(again.begin_epoch(2).message);
  EXPECT_EQ(second.take(again.begin_epoch(2).message).verdict, Verdict::diverged) << "begun twice";
}

TEST(ApplyRule, AGapMeansThatTheLogIsShorterThanItMustBe) {
  HistoryWriter writer;
  Follower follower;
  follower.take(writer.begin_epoch(1).message);
  writer.record("lost");
  const Judgement judgement = follower.take(writer.record("after").message);
  EXPECT_EQ(judgement.verdict, Verdict::missing);
  EXPECT_NE(judgement.why.find("sequence 2 is missing"), std::string::npos) << judgement.why;
}

TEST(ApplyRule, HashesThatAreNoLongerKeptAreNotTakenForEqual) {
  HistoryWriter writer;
  const Message first = writer.begin_epoch(1).message;
  writer.record("a");
  const AppliedHead head = writer.head();
  Follower follower(head);  // knows nothing of what was before
  EXPECT_EQ(follower.take(first).verdict, Verdict::diverged);
}

class RandomHistories : public testing::TestWithParam<int> {};

/// Whoever follows the log, from wherever, by whichever reading, sees the same history: each sequence once,
/// in order, unbroken.
TEST_P(RandomHistories, EveryFollowerAppliesTheSameHistory) {
  for (int round = 0; round < 50; ++round) {
    ModelLog log(static_cast<std::uint64_t>(GetParam() * 1000 + round));
    log.play(12);
    Follower everything;
    std::vector<Verdict> verdicts;
    for (const ModelEntry& entry : log.entries()) {
      const Judgement judgement = everything.take(entry.message);
      ASSERT_NE(judgement.verdict, Verdict::diverged) << judgement.why;
      ASSERT_NE(judgement.verdict, Verdict::missing) << judgement.why;
      ASSERT_EQ(judgement.verdict == Verdict::ignore, entry.foreign) << judgement.why;
    }
    ASSERT_EQ(everything.chains(), log.history()) << "an acknowledged record is lost, or one is doubled";

    Follower published;
    for (const ModelEntry& entry : log.entries()) {
      if (entry.state != ModelEntry::State::committed || entry.foreign) continue;
      const Judgement judgement = published.take(entry.message);
      ASSERT_TRUE(judgement.verdict == Verdict::apply || judgement.verdict == Verdict::pass)
          << "a published sequence came twice or not in order: " << judgement.why;
    }
    ASSERT_EQ(published.chains(), log.history()) << "the last owner published everything";

    const std::size_t from = base::draw_below(log.random(), log.entries().size());
    Follower first;
    for (std::size_t i = 0; i < from; ++i) first.take(log.entries()[i].message);
    Follower resumed(first.rule().head(), first.chains());
    for (std::size_t i = from; i < log.entries().size(); ++i) resumed.take(log.entries()[i].message);
    ASSERT_EQ(resumed.chains(), log.history());
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomHistories, testing::Range(0, 20));

}  // namespace
}  // namespace sandglass::engine::journal::kafka
