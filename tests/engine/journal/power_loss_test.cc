// RocksDB on a disk that loses what was not synced, and on one that fails to read (J32, FR-85).
#include <gtest/gtest.h>

#include "tests/engine/journal/journal_fixture.h"
#include "tests/engine/journal/power_loss_disk.h"

namespace sandglass::engine::journal {
namespace {

class JournalOnABadDisk : public testing::Test {
 protected:
  base::Result<std::unique_ptr<view::Database>> open() {
    return view::Database::open({.path = folder_.file("journal"), .env = env_.get()});
  }
  core::Sequence last_sequence(const view::Database& database, core::PartitionId partition) const {
    return read_ownership(view::RocksView(database, 0), kMeta, partition)->last_sequence;
  }

  tests::support::TempFolder folder_;
  tests::support::SeededRandom random_{7};
  std::shared_ptr<PowerLossDisk> disk_ = std::make_shared<PowerLossDisk>(random_);
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
};

TEST_F(JournalOnABadDisk, WhatWasAcknowledgedSurvivesEveryLossOfPower) {
  std::map<core::PartitionId, core::Sequence> acknowledged;
  for (int round = 0; round < 30; ++round) {
    auto database = open();
    ASSERT_TRUE(database) << "round " << round << ": " << database.error().message;
    auto journal = RocksJournal::open(**database, {.meta = kMeta});
    ASSERT_TRUE(journal);
    std::map<core::PartitionId, Writer> writers;
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
      const auto owned = (*journal)->own(partition);
      ASSERT_TRUE(owned);
      EXPECT_GE(owned->last_sequence, acknowledged[partition]) << "round " << round;
      EXPECT_EQ(owned->epoch, static_cast<core::OwnerEpoch>(round + 1));
      writers.emplace(partition, Writer(partition, *owned));
    }
    std::map<Ticket, core::Sequence> last_of;
    std::vector<Completed> told;
    const std::uint64_t enough = base::draw_below(random_, 40);
    for (std::uint64_t submitted = 0; told.size() < enough;) {
      const auto partition = static_cast<core::PartitionId>(submitted++ % kPartitions);
      Writer& writer = writers.at(partition);
      const Ticket ticket = (*journal)->submit(writer.batch(1 + base::draw_below(random_, 4), 2000));
      last_of[ticket] = writer.at().last_sequence;
      (*journal)->poll(told);
    }
    disk_->cut();  // in the middle of whatever the committer does
    while (told.size() < last_of.size()) (*journal)->poll(told);
    for (const Completed& each : told) {
      if (each.completion == Completion::durable) acknowledged[each.partition] = last_of[each.ticket];
    }
    journal->reset();
    database->reset();
    disk_->restart();
  }
}

TEST_F(JournalOnABadDisk, AFailedReadOfTheLogIsNotTakenForItsEnd) {
  core::Sequence written = 0;
  {
    const auto database = open();
    ASSERT_TRUE(database);
    const auto journal = RocksJournal::open(**database, {.meta = kMeta});
    Writer writer(0, *(*journal)->own(0));
    for (int i = 0; i < 40; ++i) (*journal)->submit(writer.batch(4, 1000));
    wait_for(**journal, 40);
    written = writer.at().last_sequence;
    disk_->cut();
  }
  disk_->restart();
  int refused = 0;
  for (std::uint64_t nth = 1; refused < 3; ++nth) {
    const std::uint64_t before = disk_->log_reads();
    disk_->fail_log_read(nth);
    const auto database = open();
    refused += !database;
    if (database) {
      ASSERT_LT(disk_->log_reads() - before, nth) << "a failed read went unnoticed";
      break;
    }
  }
  EXPECT_GT(refused, 0);
  disk_->fail_log_read(0);
  const auto database = open();
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_EQ(last_sequence(**database, 0), written);
}

}  // namespace
}  // namespace sandglass::engine::journal
