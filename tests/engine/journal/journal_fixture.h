// One face for the journals under test: memory and RocksDB, with the view and the reader beside them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "engine/codec/record.h"
#include "engine/journal/memory/journal.h"
#include "engine/journal/rocksdb/journal.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"
#include "tests/support/seeded_random.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::journal {

inline constexpr std::uint16_t kPartitions = 4;
inline const JournalMeta kMeta{.journal_id = "test journal", .partitions = kPartitions};

/// A store and what is open on it. `open` makes another journal on the same store, as a new owner would.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Journal> open() = 0;
  virtual view::View& view() = 0;
  /// Ends every journal as a lost power would; open() goes on from what is left.
  virtual void crash(std::unique_ptr<Journal>& journal) = 0;
};

class MemoryStore final : public Store {
 public:
  static constexpr core::Sequence kOwnRecords = 0;  // that an ownership begins with
  static constexpr bool kWholeBatches = true;       // a crash leaves no part of a batch

  std::unique_ptr<Journal> open() override {
    return std::make_unique<MemoryJournal>(disk_, random_, MemoryJournalOptions{.meta = kMeta});
  }
  view::View& view() override { return view_; }
  void crash(std::unique_ptr<Journal>& journal) override {
    journal.reset();
    disk_.crash();
  }

 private:
  tests::support::SeededRandom random_{1};
  view::MemoryDisk disk_{random_};
  view::MemoryView view_{disk_, random_};
};

class RocksStore final : public Store {
 public:
  static constexpr core::Sequence kOwnRecords = 0;
  static constexpr bool kWholeBatches = true;

  explicit RocksStore(JournalMeta meta = kMeta) : meta_(std::move(meta)) { reopen(); }
  std::unique_ptr<Journal> open() override {
    auto journal = RocksJournal::open(*database_, {.meta = meta_});
    EXPECT_TRUE(journal) << journal.error().message;
    return std::move(*journal);
  }
  view::View& view() override { return *view_; }
  void crash(
      std::unique_ptr<Journal>& journal) override {  // lost bytes are sigkill_test's and damage_test's matter
    journal.reset();
    reopen();
  }

 private:
  void reopen() {
    view_.reset();
    database_.reset();
    auto opened = view::Database::open({.path = folder_.file("journal")});
    ASSERT_TRUE(opened) << opened.error().message;
    database_ = std::move(*opened);
    view_ = std::make_unique<view::RocksView>(*database_, 2);
  }

  const JournalMeta meta_;
  tests::support::TempFolder folder_;
  std::unique_ptr<view::Database> database_;
  std::unique_ptr<view::RocksView> view_;
};

/// Makes batches whose links and chains are right, as a shard does.
class Writer {
 public:
  Writer(core::PartitionId partition, const Ownership& ownership) : partition_(partition), at_(ownership) {}

  Batch batch(std::size_t records, std::size_t bytes = 20) {
    Batch made{.partition = partition_};
    for (std::size_t i = 0; i < records; ++i) made.records.push_back(next(bytes));
    return made;
  }
  core::OrderedRecord next(std::size_t bytes) {
    const core::StreamId stream = core::StreamId::named(core::StreamKind::test, std::to_string(partition_));
    core::StoredRecord record{
        .stream = stream, .seq = at_.last_sequence + 1, .header = std::string(bytes, 'h')};
    record.slots.push_back(std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, "{}"}));
    const base::Hash256 leaf = codec::leaf_hash(record);
    at_.chain = codec::chain_hash(at_.chain, partition_, ++at_.last_sequence, at_.epoch, leaf);
    return {.link = {.sequence = at_.last_sequence,
                     .epoch = at_.epoch,
                     .stream = stream,
                     .stream_seq = record.seq,
                     .leaf = leaf,
                     .chain = at_.chain},
            .record = std::move(record)};
  }
  const Ownership& at() const { return at_; }

 private:
  core::PartitionId partition_;
  Ownership at_;
};

/// Polls until `count` more completions have come.
inline std::vector<Completed> wait_for(Journal& journal, std::size_t count) {
  std::vector<Completed> completed;
  while (completed.size() < count) {
    journal.poll(completed);
    std::this_thread::yield();
  }
  return completed;
}

}  // namespace sandglass::engine::journal
