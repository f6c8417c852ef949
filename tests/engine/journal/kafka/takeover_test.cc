// Takeovers and owners on a simulated topic partition: what was acknowledged is never lost nor doubled,
// whoever dies when (J24–J27).
#include "engine/journal/kafka/takeover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/codec/header.h"
#include "engine/journal/kafka/place.h"
#include "engine/view/keys.h"
#include "tests/engine/journal/kafka/sim_node.h"

namespace sandglass::engine::journal::kafka {
namespace {

class World {
 public:
  explicit World(std::uint64_t seed, int nodes = 3) : random_(seed), log_(random_) {
    for (int i = 0; i < nodes; ++i)
      nodes_.push_back(std::make_unique<SimNode>(log_, acknowledged_, "node " + std::to_string(i) + " "));
  }
  SimLog& log() { return log_; }
  SimNode& node(std::size_t number) { return *nodes_[number]; }
  SimNode& any() { return *nodes_[base::draw_below(random_, nodes_.size())]; }
  const std::vector<Acknowledged>& acknowledged() const { return acknowledged_; }
  void set_clock(base::WallMs off_ms) { now_.wall_ms += off_ms; }

  void step(SimNode& node) {
    now_.monotonic_ns += 5 * SimNode::kNsPerMs;
    now_.wall_ms += 5;
    node.step(now_);
  }
  void take_over(SimNode& node, SimFaults faults = {}, bool republish = false) {
    node.start_takeover(faults, now_, republish);
  }
  /// Until it serves or has given up.
  void settle(SimNode& node) {
    for (int i = 0; i < 100'000 && node.lives() && !node.serves(); ++i) step(node);
  }
  void write(SimNode& node, int batches, std::size_t padding = 0) {
    const std::size_t before = acknowledged_.size();
    for (int i = 0; i < batches; ++i) node.write(padding);
    for (int i = 0;
         i < 100'000 && node.lives() && acknowledged_.size() < before + static_cast<std::size_t>(batches);
         ++i)
      step(node);
  }
  /// So long that everything is published.
  void rest(SimNode& node) {
    for (int i = 0; i < 400; ++i) step(node);
  }

  std::uint64_t unpublished() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(log_.entries(), [](const SimEntry& entry) {
      return entry.state == SimEntry::State::open && decode_envelope(entry.message)->sequenced();
    }));
  }

  void check() {
    Follower everything;
    for (const SimEntry& entry : log_.entries()) {
      if (entry.state == SimEntry::State::marker) continue;
      const Judgement judgement = everything.take(entry.message);
      ASSERT_TRUE(judgement.verdict == Verdict::apply || judgement.verdict == Verdict::skip ||
                  judgement.verdict == Verdict::pass)
          << judgement.why;
    }
    for (const Acknowledged& each : acknowledged_) {
      ASSERT_LE(each.sequence, everything.chains().size()) << "an acknowledged record is lost";
      ASSERT_EQ(everything.chains()[each.sequence - 1], each.chain) << "sequence " << each.sequence;
    }
    Follower published;
    for (const SimEntry& entry : log_.entries()) {
      if (entry.state != SimEntry::State::committed) continue;
      const Judgement judgement = published.take(entry.message);
      ASSERT_TRUE(judgement.verdict == Verdict::apply || judgement.verdict == Verdict::pass)
          << "published twice or out of order: " << judgement.why;
    }
  }

 private:
  tests::support::SeededRandom random_;
  SimLog log_;
  std::vector<Acknowledged> acknowledged_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  Takeover::Now now_{.monotonic_ns = 1'000'000'000, .wall_ms = 1'000'000};
};

TEST(KafkaTakeover, ANewPartitionBeginsWithAnEpoch) {
  World world(1);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  ASSERT_TRUE(world.node(0).serves()) << world.node(0).stand();
  EXPECT_EQ(world.node(0).head().sequence, 1u);
  EXPECT_EQ(world.node(0).head().epoch, 1u);
  world.check();
}

// J23, J29: whoever has another tenant key or blob store could not go on with what the owners before did.
TEST(KafkaTakeover, OnlyWhoIsLikeTheOwnersBeforeIsOne) {
  World world(2);
  const OwnerMark mark{.key = "key", .blobs = "blobs"};
  world.node(0).self = mark;
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 5);
  world.node(0).crash();
  for (const OwnerMark& other :
       {OwnerMark{.key = "another", .blobs = "blobs"}, OwnerMark{.key = "key", .blobs = "elsewhere"}}) {
    world.node(1).self = other;
    world.take_over(world.node(1));
    world.settle(world.node(1));
    ASSERT_TRUE(world.node(1).error()) << "it took over";
    EXPECT_EQ(world.node(1).error()->code, base::Code::topic_foreign) << world.node(1).error()->message;
  }
  world.node(1).self = mark;
  world.take_over(world.node(1));
  world.settle(world.node(1));
  EXPECT_TRUE(world.node(1).serves()) << world.node(1).stand();
  world.check();
}

// ADV-E9
TEST(KafkaTakeover, AnEpochBeginsNoEarlierThanTheRecordBeforeIt) {
  World world(3);
  for (const base::WallMs off_ms : {0, -7'200'000, 7'200'000}) {
    world.set_clock(off_ms);
    world.take_over(world.node(0));
    world.settle(world.node(0));
    ASSERT_TRUE(world.node(0).serves()) << world.node(0).stand();
    world.node(0).crash();
  }
  base::WallMs newest = 0;
  for (const SimEntry& entry : world.log().entries()) {
    if (entry.state == SimEntry::State::marker) continue;
    const auto envelope = decode_envelope(entry.message);
    if (!envelope || envelope->kind != Kind::epoch) continue;
    const auto record = decode_record(*envelope, entry.message.value, kPartition);
    const auto header = codec::decode_header(record->record);
    EXPECT_GE(header->time_ms, newest);
    newest = header->time_ms;
  }
  EXPECT_GT(newest, 0);
}

/// A record in the journal's name at a place that it has already: nobody can take it out of the topic.
TEST(KafkaTakeover, AForgedRecordIsPassedOverWhereItIsNamedExactlyAndTheOwnerSaysSo) {
  World world(4);
  SimNode& node = world.node(0);
  world.take_over(node);
  world.settle(node);
  world.write(node, 5);
  Message forged;
  for (const SimEntry& entry : world.log().entries()) {
    const auto envelope = decode_envelope(entry.message);
    if (envelope && envelope->kind == Kind::record) forged = entry.message;
  }
  forged.value += "forged";
  const std::int64_t offset = world.log().append(forged);
  world.write(node, 5);  // who serves reads nothing
  const core::Sequence acknowledged = world.acknowledged().back().sequence;
  node.crash();

  const auto take_over = [&](SimNode& taking, std::vector<SkippedMessage> skips) {
    taking.skips = std::move(skips);
    world.take_over(taking);
    world.settle(taking);
  };
  SimNode& fresh = world.node(1);
  take_over(fresh, {});
  ASSERT_TRUE(fresh.error());
  EXPECT_EQ(fresh.error()->code, base::Code::journal_diverged);
  const std::string& said = fresh.error()->message;
  const std::size_t begins = said.find("kafka.skip=[\"") + 13;
  const auto named = parse_skips({said.substr(begins, said.find('"', begins) - begins)});
  ASSERT_TRUE(named) << said;
  const SkippedMessage message = named->front().message;
  EXPECT_EQ(message.offset, offset);

  SkippedMessage other = message;
  other.hash.bytes[0] ^= 1;
  take_over(fresh, {other});
  EXPECT_FALSE(fresh.serves()) << "another message was passed over";
  take_over(fresh, {message});
  ASSERT_TRUE(fresh.serves()) << fresh.stand();
  EXPECT_GT(fresh.head().sequence, acknowledged);
  const auto newest = std::ranges::find_if(world.log().entries().rbegin(), world.log().entries().rend(),
                                           [](const SimEntry& entry) {
                                             const auto envelope = decode_envelope(entry.message);
                                             return envelope && envelope->kind == Kind::epoch;
                                           });
  const auto envelope = decode_envelope(newest->message);
  const auto owner = owner_of(decode_record(*envelope, newest->message.value, kPartition)->record);
  ASSERT_TRUE(owner && *owner);
  EXPECT_EQ((*owner)->skipped, std::vector{message});
  fresh.crash();
  take_over(world.node(2), {});
  EXPECT_FALSE(world.node(2).serves()) << "each server's operator has to say so";
  take_over(world.node(2), {message});
  EXPECT_TRUE(world.node(2).serves()) << world.node(2).stand();
}

/// It is looked for from the newest MiB on, then farther and farther back.
TEST(KafkaTakeover, OfALongHistoryExactlyTheUnpublishedTailIsPublishedAgain) {
  for (std::uint64_t seed = 20; seed < 26; ++seed) {
    World world(seed);
    world.node(0).owner_options = {
        .publish_interval_ms = 1'000'000, .idle_ms = 1'000'000, .max_tail_bytes = 8 << 20};
    world.take_over(world.node(0));
    world.settle(world.node(0));
    world.write(world.node(0), 24, 300'000);
    const std::uint64_t unpublished = world.unpublished();
    world.node(0).crash();
    world.take_over(world.node(1));
    world.settle(world.node(1));
    ASSERT_TRUE(world.node(1).serves()) << world.node(1).stand();
    EXPECT_EQ(world.node(1).takeover()->published_again(), unpublished) << "seed " << seed;
    world.check();
  }
}

TEST(KafkaTakeover, TheUnpublishedTailIsPublishedAgainByteForByte) {
  World world(2);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 5);
  world.node(0).crash();
  world.take_over(world.node(1));
  world.settle(world.node(1));
  ASSERT_TRUE(world.node(1).serves()) << world.node(1).stand();
  EXPECT_GT(world.node(1).takeover()->published_again(), 0u);
  std::map<std::string, std::vector<const Message*>> copies;
  for (const SimEntry& entry : world.log().entries()) {
    const auto envelope = decode_envelope(entry.message);
    if (envelope && envelope->sequenced())
      copies[std::to_string(envelope->sequence)].push_back(&entry.message);
  }
  int twice = 0;
  for (const auto& [sequence, messages] : copies) {
    twice += messages.size() > 1;
    for (const Message* each : messages) {
      EXPECT_EQ(each->key, messages[0]->key);
      EXPECT_EQ(each->value, messages[0]->value);
      EXPECT_EQ(each->headers, messages[0]->headers);
    }
  }
  EXPECT_GT(twice, 0);
  world.check();
}

TEST(KafkaTakeover, AStoppedOwnerIsFencedByItsNextProduceAndNothingOfItIsSeen) {
  World world(3);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 3);
  world.take_over(world.node(1));  // node 0 is stopped: it does not step
  world.settle(world.node(1));
  ASSERT_TRUE(world.node(1).serves());
  const std::size_t before = world.log().entries().size();
  world.node(0).write();
  for (int i = 0; i < 1000 && world.node(0).lives(); ++i) world.step(world.node(0));
  EXPECT_FALSE(world.node(0).lives());
  EXPECT_EQ(world.node(0).last_completion, Completion::fenced);
  EXPECT_EQ(world.log().entries().size(), before);
  world.write(world.node(1), 3);
  world.check();
}

TEST(KafkaTakeover, AnIdleOwnersTransactionEndsAndIsNotOpenedAgain) {
  World world(4);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 1);
  world.rest(world.node(0));
  const std::size_t entries = world.log().entries().size();
  for (const SimEntry& entry : world.log().entries()) EXPECT_NE(entry.state, SimEntry::State::open);
  world.rest(world.node(0));
  EXPECT_EQ(world.log().entries().size(), entries) << "it writes although nobody asks it to";
  world.write(world.node(0), 1);
  world.check();
}

TEST(KafkaTakeover, ADeletedViewIsMadeAnewFromTheTopicAlone) {
  World world(5, 4);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  for (int i = 0; i < 30; ++i) world.write(world.node(0), 10);
  world.rest(world.node(0));
  const AppliedHead head = world.node(0).head();
  world.node(0).crash();
  world.take_over(world.node(3));
  world.settle(world.node(3));
  ASSERT_TRUE(world.node(3).serves()) << world.node(3).stand();
  EXPECT_EQ(world.node(3).head().sequence, head.sequence + 1);
  EXPECT_EQ(world.node(3).takeover()->published_again(), 0u) << "what was published is not published again";
  const auto order = view::order_range(kPartition);
  EXPECT_EQ(world.node(3)
                .view()
                .scan_now({.first = order.first, .last = order.last, .limit = 100'000})
                ->rows.size(),
            head.sequence + 1);
  world.check();
}

/// FR-101: position and rows are in one write, so a half view says how much of it there is.
TEST(KafkaTakeover, AViewThatIsHalfMadeAnewGoesOnWhereItStands) {
  World world(12);
  world.node(0).owner_options.max_tail_bytes = 8 << 20;
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 1'500);
  const core::Sequence head = world.node(0).head().sequence;
  world.node(0).crash();
  SimNode& fresh = world.node(1);
  const auto has = [&fresh] { return read_applied(fresh.view())->front().sequence; };
  world.take_over(fresh);
  while (read_applied(fresh.view())->empty()) world.step(fresh);
  fresh.view().flush();
  fresh.crash();
  const core::Sequence half = has();
  ASSERT_GT(half, 0u);
  ASSERT_LT(half, head);
  world.take_over(fresh);
  world.settle(fresh);
  ASSERT_TRUE(fresh.serves()) << fresh.stand();
  EXPECT_GT(has(), head);
  world.check();
}

TEST(KafkaTakeover, ALogThatLostAcknowledgedRecordsKeepsThePartitionClosedUntilSomebodyChooses) {
  World world(6);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 20);
  const AppliedHead head = world.node(0).head();
  world.node(0).view().flush();
  world.node(0).crash();
  world.log().truncate(world.log().entries().size() / 2);
  const std::size_t left = world.log().entries().size();
  world.take_over(world.node(0));
  world.settle(world.node(0));
  ASSERT_TRUE(world.node(0).error());
  EXPECT_EQ(world.node(0).error()->code, base::Code::journal_incomplete);
  EXPECT_NE(world.node(0).error()->message.find("to " + std::to_string(head.sequence)), std::string::npos)
      << world.node(0).error()->message;
  for (std::size_t i = left; i < world.log().entries().size(); ++i) {
    const auto envelope = decode_envelope(world.log().entries()[i].message);
    EXPECT_TRUE(!envelope || !envelope->sequenced()) << "it wrote into a log that does not fit it";
  }
  world.take_over(world.node(0), {}, true);
  world.settle(world.node(0));
  ASSERT_TRUE(world.node(0).serves()) << world.node(0).stand();
  world.write(world.node(0), 2);
  world.check();
}

TEST(KafkaTakeover, AnOwnerWhoseLogLosesRecordsUnderItAcknowledgesNothingBehindTheGap) {
  World world(8);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 20);
  world.log().truncate(world.log().entries().size() - 10);
  const std::size_t acknowledged = world.acknowledged().size();
  world.node(0).write();
  for (int i = 0; i < 10'000 && world.node(0).lives(); ++i) world.step(world.node(0));
  EXPECT_FALSE(world.node(0).lives());
  EXPECT_EQ(world.node(0).last_completion, Completion::unknown);
  EXPECT_EQ(world.acknowledged().size(), acknowledged);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  ASSERT_TRUE(world.node(0).error());
  EXPECT_EQ(world.node(0).error()->code, base::Code::journal_incomplete) << world.node(0).error()->message;
}

TEST(KafkaTakeover, AnotherNodeAcceptsTheLossByHavingNoViewOfIt) {
  World world(7);
  world.take_over(world.node(0));
  world.settle(world.node(0));
  world.write(world.node(0), 20);
  world.node(0).view().flush();
  world.node(0).crash();
  world.log().truncate(world.log().entries().size() / 2);
  world.take_over(world.node(1));
  world.settle(world.node(1));
  ASSERT_TRUE(world.node(1).serves()) << world.node(1).stand();
  world.write(world.node(1), 30);
  world.take_over(world.node(0));  // its view is of another history now
  world.settle(world.node(0));
  ASSERT_TRUE(world.node(0).error());
  EXPECT_EQ(world.node(0).error()->code, base::Code::journal_diverged) << world.node(0).error()->message;
}

class RandomDeaths : public testing::TestWithParam<int> {};

/// FR-100: among others nodes whose views have lost their newest writes, in the midst of being made anew.
TEST_P(RandomDeaths, WhatWasAcknowledgedIsThereOnceAndInOrder) {
  int takeovers = 0;
  std::size_t acknowledged = 0;
  for (int round = 0; round < 20; ++round) {
    World world(static_cast<std::uint64_t>(GetParam()) * 1000 + static_cast<std::uint64_t>(round));
    for (int turn = 0; turn < 600; ++turn) {
      SimNode& node = world.any();
      if (!node.lives()) {
        if (!world.log().chance(60)) continue;
        world.take_over(node, {.fail_per_mille = world.log().chance(500) ? 0U : 8U});
        ++takeovers;
      } else if (world.log().chance(6)) {
        node.crash();
      } else if (node.serves() && world.log().chance(400)) {
        node.write();
      } else {
        for (std::uint64_t left = base::draw_below(world.log().random(), 30); left > 0; --left)
          world.step(node);
      }
      if (node.error()) {
        ASSERT_TRUE(node.error()->code == base::Code::outcome_unknown ||
                    node.error()->code == base::Code::journal_fenced)
            << node.error()->message;
      }
    }
    for (std::size_t i = 0; i < 3; ++i) world.node(i).crash();
    world.take_over(world.node(0));
    world.settle(world.node(0));
    ASSERT_TRUE(world.node(0).serves()) << world.node(0).stand();
    world.write(world.node(0), 1);
    world.rest(world.node(0));
    world.check();
    acknowledged += world.acknowledged().size();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(takeovers, 50);
  EXPECT_GT(acknowledged, 200u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomDeaths, testing::Range(0, 10));

}  // namespace
}  // namespace sandglass::engine::journal::kafka
