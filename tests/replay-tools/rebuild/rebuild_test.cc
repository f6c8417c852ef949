// J1, J11: what is derived from records is made anew from them, row for row; what is damaged is named and
// never rolled back.
#include "replay-tools/rebuild/rebuild.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/codec/record.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"
#include "engine/view/memory/disk.h"
#include "tests/support/test_world.h"

namespace sandglass::replay_tools::rebuild {
namespace {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace fold = engine::fold;
namespace journal = engine::journal;
namespace view = engine::view;
using tests::test_command;
using tests::test_stream;
using tests::World;
using Rows = std::map<std::string, std::string, std::less<>>;

/// A view in which these rows cannot be read, nor any range that holds one of them.
class HurtView final : public view::View {
 public:
  explicit HurtView(const view::MemoryDisk& disk) : disk_(disk) {}
  view::ReadTicket submit(view::ScanRequest) override { return 0; }
  void poll(std::vector<view::ReadAnswer>&) override {}
  base::Result<view::ScanResult> scan_now(const view::ScanRequest& request) const override {
    const auto hurt = unreadable.lower_bound(request.first);
    if (hurt != unreadable.end() && (request.last.empty() || *hurt < request.last))
      return base::fail(base::Code::record_damaged, "block checksum mismatch in 000007.sst");
    return disk_.scan(request);
  }
  std::set<std::string, std::less<>> unreadable;

 private:
  const view::MemoryDisk& disk_;
};

base::Result<Report> rebuild_into(Rows& rows, const view::View& from, const World& world) {
  return rebuild(from, world.kinds, [&](std::vector<view::ViewChange> changes) -> base::Status {
    for (view::ViewChange& change : changes) {
      EXPECT_FALSE(change.value && view::is_put_once(change.key) && rows.contains(change.key));
      if (change.value) {
        rows[change.key] = std::move(*change.value);
      } else {
        rows.erase(change.key);
      }
    }
    return {};
  });
}

/// All rows but the low-water marks, which an engine finds again.
Rows comparable(const World& world, const Rows& rows) {
  Rows kept = rows;
  for (std::uint16_t partition = 0; partition < world.config.partitions; ++partition)
    kept.erase(view::low_water_key(partition, view::Index::due));
  return kept;
}

class RebuildTest : public testing::Test {
 protected:
  /// Streams that talk to each other, wait for timers and actions, and are long enough for snapshots.
  void SetUp() override {
    for (int i = 0; i < 12; ++i) streams_.push_back(test_stream("s" + std::to_string(i)));
    for (int round = 0; round < 40; ++round) {
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        const auto& stream = streams_[i];
        const std::string name = std::to_string(round) + "-" + std::to_string(i);
        ASSERT_TRUE(world_.call_now(stream, test_command(tests::Add{"n", 1}), "request " + name));
        if (round % 10 == 3) {
          const auto& target = streams_[world_.random.next() % streams_.size()];
          if (target != stream) ASSERT_TRUE(world_.call_now(stream, test_command(tests::Send{target, name})));
        }
        if (round % 20 == 5)
          ASSERT_TRUE(world_.call_now(
              stream, test_command(tests::SetTimer{"t" + name, world_.now.wall_ms + 20 + round * 1'000})));
        if (round == 30 && i % 3 == 0)
          ASSERT_TRUE(world_.call_now(stream, test_command(tests::Act{"a", "act"})));
      }
      world_.sleep(30);
      if (round % 13 == 7) world_.crash();
    }
    world_.settle();
    ASSERT_GT(world_.rows_of(view::Index::due), 0U);
    ASSERT_GT(world_.rows_of(view::Index::in_flight), 0U);
    ASSERT_GT(world_.rows_of(view::Index::visibility), 0U);
  }
  const core::StreamId& stream(std::size_t at) const { return streams_[at]; }
  std::uint64_t head_of(const core::StreamId& stream) { return world_.headers(stream).size(); }

  World world_{7};
  HurtView hurt_{world_.disk};
  std::vector<core::StreamId> streams_;
  Rows rebuilt_;
};

TEST_F(RebuildTest, EveryRowOfAWholeJournalIsMadeAnew) {
  const auto report = rebuild_into(rebuilt_, hurt_, world_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->damaged.empty());
  EXPECT_GE(report->streams, streams_.size());
  EXPECT_EQ(comparable(world_, rebuilt_), comparable(world_, world_.disk.rows()));
}

/// J22: moved to another journal it has the same records at the same places, under a chain of its own.
TEST_F(RebuildTest, AsAnotherJournalOnlyItsChainAndItsIdAreOthers) {
  const auto meta = journal::read_meta(hurt_);
  ASSERT_TRUE(meta) << meta.error().message;
  journal::JournalMeta as = *meta;
  as.journal_id = "another";
  view::MemoryDisk disk(world_.random);
  const auto write = [&](std::vector<view::ViewChange> rows) -> base::Status {
    disk.sync(disk.write(0, std::move(rows)));
    return {};
  };
  const auto report = rebuild_as(as, hurt_, world_.kinds, write);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->damaged.empty());
  Rows expected = comparable(world_, world_.disk.rows());
  Rows made = comparable(world_, disk.rows());
  const HurtView view(disk);
  EXPECT_EQ(journal::read_meta(view)->journal_id, "another");
  std::uint64_t records = 0;
  for (core::PartitionId partition = 0; partition < meta->partitions; ++partition) {
    // It is checked to be a chain from the new genesis on while it is rebuilt once more.
    const auto before = journal::read_ownership(hurt_, *meta, partition);
    const auto after = journal::read_ownership(view, as, partition);
    ASSERT_TRUE(before && after);
    EXPECT_EQ(after->last_sequence, before->last_sequence);
    EXPECT_NE(after->chain, before->chain);
    for (core::Sequence sequence = 1; sequence <= before->last_sequence; ++sequence, ++records) {
      const std::string key = view::order_key(partition, sequence);
      const auto was = codec::decode_order(sequence, expected.at(key));
      const auto is = codec::decode_order(sequence, made.at(key));
      ASSERT_TRUE(was && is);
      EXPECT_EQ(is->leaf, was->leaf);
      EXPECT_EQ(is->epoch, was->epoch);
      EXPECT_EQ(is->stream, was->stream);
      expected.erase(key);
      made.erase(key);
    }
  }
  EXPECT_EQ(records, report->records);
  const std::string id = view::meta_key(view::MetaRow::journal_id);
  expected.erase(id);
  made.erase(id);
  EXPECT_EQ(made, expected);
  EXPECT_TRUE(rebuild_into(rebuilt_, view, world_));
}

TEST_F(RebuildTest, RowsOfAnIndexThatCannotBeReadAreMadeAnew) {
  for (const auto& [key, value] : world_.disk.rows()) {
    const auto stream = view::parse_stream_key(key);
    if (view::is_index_key(key) || (stream && stream->kind != view::StreamRow::record))
      hurt_.unreadable.insert(key);
  }
  const auto report = rebuild_into(rebuilt_, hurt_, world_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->damaged.empty());
  EXPECT_EQ(comparable(world_, rebuilt_), comparable(world_, world_.disk.rows()));
}

TEST_F(RebuildTest, AStreamWhoseNewestRecordIsLostIsDamagedAndNotRolledBack) {
  ASSERT_TRUE(world_.call_now(stream(2), test_command(tests::Add{"n", 1})));  // in no state snapshot
  const std::uint64_t head = head_of(stream(2));
  hurt_.unreadable.insert(view::record_key(stream(2), head));
  const auto report = rebuild_into(rebuilt_, hurt_, world_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->damaged.size(), 1U);
  EXPECT_EQ(report->damaged[0].stream, stream(2));
  EXPECT_EQ(report->damaged[0].seq, head);
  EXPECT_NE(report->damaged[0].what.find("000007.sst"), std::string::npos) << report->damaged[0].what;
  for (const auto& [key, value] : comparable(world_, world_.disk.rows())) {
    const auto of = view::parse_stream_key(key);
    const auto index = view::parse_index_key(key);
    if ((of && of->stream == stream(2).bytes()) || (index && index->stream == stream(2).bytes())) continue;
    EXPECT_TRUE(rebuilt_.contains(key) && rebuilt_.at(key) == value) << base::to_hex(key);
  }
  const auto healthy = world_.state_of(stream(3));
  for (const auto& [key, value] : Rows(world_.disk.rows())) world_.disk.tamper(key, std::nullopt);
  for (const auto& [key, value] : rebuilt_) world_.disk.tamper(key, value);
  world_.crash();
  const auto refused = world_.call_now(stream(2), test_command(tests::Add{"n", 1}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::stream_damaged);
  EXPECT_EQ(world_.state_of(stream(3)), healthy);
  EXPECT_TRUE(world_.call_now(stream(3), test_command(tests::Add{"n", 1})));
}

TEST_F(RebuildTest, AStreamWithASnapshotBehindTheDamageGoesOnFromIt) {
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(world_.call_now(stream(1), test_command(tests::Add{"n", 1})));
  const std::string damaged = view::record_key(stream(1), 2);
  std::string row = *world_.disk.get(damaged);
  row.back() = static_cast<char>(row.back() ^ 1);
  world_.disk.tamper(damaged, row);
  const auto report = rebuild_into(rebuilt_, hurt_, world_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->damaged.size(), 1U);
  EXPECT_EQ(report->damaged[0].seq, 2U);
  EXPECT_EQ(rebuilt_.at(damaged), row) << "the audit shall find it as it was";
  EXPECT_EQ(rebuilt_.at(view::snapshot_key(stream(1))), *world_.disk.get(view::snapshot_key(stream(1))));
  const auto state = world_.state_of(stream(1));
  for (const auto& [key, value] : Rows(world_.disk.rows())) world_.disk.tamper(key, std::nullopt);
  for (const auto& [key, value] : rebuilt_) world_.disk.tamper(key, value);
  world_.crash();
  EXPECT_EQ(world_.state_of(stream(1)), state);
}

TEST_F(RebuildTest, WhatIsNoStreamsIsRefused) {
  const auto partition = fold::partition_of(stream(0), world_.config.partitions);
  const std::string key = view::order_key(partition, 3);
  const std::string row = *world_.disk.get(key);
  for (const bool readable : {true, false}) {
    std::string changed = row;
    changed[40] = static_cast<char>(changed[40] ^ 1);
    if (readable) world_.disk.tamper(key, changed);
    if (!readable) hurt_.unreadable.insert(key);
    const auto report = rebuild_into(rebuilt_, hurt_, world_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, base::Code::record_damaged) << report.error().message;
    world_.disk.tamper(key, row);
  }
}

}  // namespace
}  // namespace sandglass::replay_tools::rebuild
