// What every journal must do. Each program instantiates the suite for its own stores (journal_fixture.h).
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "engine/view/keys.h"
#include "tests/engine/journal/journal_fixture.h"

namespace sandglass::engine::journal {

template <class StoreType>
class JournalContract : public testing::Test {
 protected:
  StoreType store_;
  std::unique_ptr<Journal> journal_ = store_.open();
};
TYPED_TEST_SUITE_P(JournalContract);

TYPED_TEST_P(JournalContract, ANewPartitionIsEmptyAndItsChainIsTheGenesis) {
  const auto owned = this->journal_->own(2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->epoch, 1u);
  EXPECT_EQ(owned->last_sequence, TypeParam::kOwnRecords);
  if (TypeParam::kOwnRecords == 0) EXPECT_EQ(owned->chain, codec::genesis_chain(kMeta.journal_id, 2));
  EXPECT_FALSE(this->journal_->own(kPartitions));
}

TYPED_TEST_P(JournalContract, EveryOwnerGetsAHigherEpochAndStandsWhereTheLastOneStopped) {
  Writer writer(0, *this->journal_->own(0));
  this->journal_->submit(writer.batch(3));
  wait_for(*this->journal_, 1);
  this->store_.crash(this->journal_);
  this->journal_ = this->store_.open();
  const auto again = this->journal_->own(0);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->epoch, 2u);
  EXPECT_EQ(again->last_sequence, writer.at().last_sequence + TypeParam::kOwnRecords);
  if (TypeParam::kOwnRecords == 0) EXPECT_EQ(again->chain, writer.at().chain);
}

TYPED_TEST_P(JournalContract, TicketsOfOnePartitionCompleteInOrder) {
  std::map<core::PartitionId, Writer> writers;
  std::map<core::PartitionId, std::vector<Ticket>> submitted;
  std::map<core::PartitionId, std::vector<Ticket>> told;
  for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
    writers.emplace(partition, Writer(partition, *this->journal_->own(partition)));
  }
  std::vector<Completed> completed;
  for (int i = 0; i < 200; ++i) {
    const auto partition = static_cast<core::PartitionId>(i * 7 % kPartitions);
    submitted[partition].push_back(this->journal_->submit(writers.at(partition).batch(1 + i % 3)));
    this->journal_->poll(completed);
  }
  while (completed.size() < 200) this->journal_->poll(completed);
  for (const Completed& each : completed) {
    EXPECT_EQ(each.completion, Completion::durable);
    told[each.partition].push_back(each.ticket);
  }
  EXPECT_EQ(told, submitted);
  EXPECT_LT(this->journal_->counters().syncs, 200u) << "nothing was committed in groups";
}

TYPED_TEST_P(JournalContract, WhatIsReadBackIsWhatWasWritten) {
  Writer writer(1, *this->journal_->own(1));
  Batch batch = writer.batch(5);
  const std::vector<core::OrderedRecord> written = batch.records;
  batch.view_changes.push_back({view::snapshot_key(written[0].record.stream), "state"});
  this->journal_->submit(std::move(batch));
  wait_for(*this->journal_, 1);

  const RowReader reader(this->store_.view());
  EXPECT_EQ(reader.partitions(), kPartitions);
  EXPECT_EQ(reader.journal_id(), kMeta.journal_id);
  const auto read = reader.read_order(1, written[1].link.sequence, 3);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*read)[i].link.chain, written[i + 1].link.chain);
    EXPECT_EQ((*read)[i].record.header, written[i + 1].record.header);
    EXPECT_EQ(codec::leaf_hash((*read)[i].record), written[i + 1].link.leaf);
  }
  const auto stream = reader.read_stream(written[0].record.stream, written[3].record.seq, 10);
  ASSERT_TRUE(stream);
  ASSERT_EQ(stream->size(), 2u);
  EXPECT_EQ((*stream)[0].seq, written[3].record.seq);
  const auto rows =
      this->store_.view().scan_now({.first = view::snapshot_key(written[0].record.stream), .limit = 1});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->rows[0].value, "state");
}

TYPED_TEST_P(JournalContract, ViewChangesPutAndDeleteTogetherWithTheirRecords) {
  Writer writer(0, *this->journal_->own(0));
  const std::string key = view::in_flight_key(0, core::StreamId::named(core::StreamKind::test, "a"));
  Batch first = writer.batch(1);
  first.view_changes = {{key, ""}};
  this->journal_->submit(std::move(first));
  wait_for(*this->journal_, 1);
  EXPECT_EQ(this->store_.view().scan_now({.first = key, .last = key + '\0'})->rows.size(), 1u);
  Batch second = writer.batch(1);
  second.view_changes = {{key, std::nullopt}};
  this->journal_->submit(std::move(second));
  wait_for(*this->journal_, 1);
  EXPECT_TRUE(this->store_.view().scan_now({.first = key, .last = key + '\0'})->rows.empty());
}

TYPED_TEST_P(JournalContract, AfterAnotherOwnerTheOldOneIsFencedAndWritesNothing) {  // FR-20
  Writer old_writer(0, *this->journal_->own(0));
  Writer other(1, *this->journal_->own(1));
  this->journal_->submit(old_writer.batch(2));
  wait_for(*this->journal_, 1);
  const std::unique_ptr<Journal> successor = this->store_.open();
  Writer new_writer(0, *successor->own(0));
  const core::Sequence before = old_writer.at().last_sequence;
  EXPECT_EQ(new_writer.at().last_sequence, before + TypeParam::kOwnRecords);
  this->journal_->submit(old_writer.batch(1));
  this->journal_->submit(old_writer.batch(1));
  const std::vector<Completed> ended = wait_for(*this->journal_, 2);
  EXPECT_EQ(ended[0].completion, Completion::fenced);
  EXPECT_NE(ended[1].completion, Completion::durable);
  this->journal_->submit(other.batch(1));  // the other partition goes on
  EXPECT_EQ(wait_for(*this->journal_, 1).front().completion, Completion::durable);
  successor->submit(new_writer.batch(1));
  EXPECT_EQ(wait_for(*successor, 1).front().completion, Completion::durable);
  const auto read = RowReader(this->store_.view()).read_order(0, 1, 10);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), new_writer.at().last_sequence);
  EXPECT_EQ(read->back().link.epoch, 2u);
  EXPECT_EQ(read->back().link.chain, new_writer.at().chain);
}

TYPED_TEST_P(JournalContract, WhatWasToldDurableSurvivesACrashAndTheRestIsAPrefix) {
  core::Sequence durable = 0;
  for (int round = 0; round < 20; ++round) {
    const auto owned = this->journal_->own(0);
    ASSERT_TRUE(owned);
    const auto read = RowReader(this->store_.view()).read_order(0, 1, 10'000);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->size(), owned->last_sequence);
    EXPECT_GE(read->size(), durable);
    if (TypeParam::kWholeBatches) EXPECT_EQ(read->size() % 2, 0u) << "half a batch is in the journal";
    base::Hash256 chain = codec::genesis_chain(kMeta.journal_id, 0);
    for (const core::OrderedRecord& each : *read) {
      chain = codec::chain_hash(chain, 0, each.link.sequence, each.link.epoch, each.link.leaf);
      EXPECT_EQ(chain, each.link.chain);
    }
    EXPECT_EQ(chain, owned->chain);
    Writer writer(0, *owned);
    for (int i = 0; i < 10; ++i) this->journal_->submit(writer.batch(2));
    std::vector<Completed> completed;
    for (int i = 0; i < round; ++i) this->journal_->poll(completed);
    durable = owned->last_sequence + 2 * completed.size();
    this->store_.crash(this->journal_);
    this->journal_ = this->store_.open();
  }
}

TYPED_TEST_P(JournalContract, ViewTicketsAreAnsweredWithTheRowsOfTheirRange) {
  Writer writer(0, *this->journal_->own(0));
  const auto [first, last] = view::order_range(0, writer.at().last_sequence + 1);
  this->journal_->submit(writer.batch(50));
  wait_for(*this->journal_, 1);
  view::View& view = this->store_.view();
  const view::ReadTicket all = view.submit({.first = first, .last = last});
  const view::ReadTicket some = view.submit({.first = first, .last = last, .limit = 7});
  const view::ReadTicket back = view.submit({.first = first, .last = last, .limit = 1, .reverse = true});
  const view::ReadTicket small = view.submit({.first = first, .last = last, .max_bytes = 1});
  std::map<view::ReadTicket, view::ScanResult> answers;
  while (answers.size() < 4) {
    std::vector<view::ReadAnswer> told;
    view.poll(told);
    for (view::ReadAnswer& each : told) {
      ASSERT_TRUE(each.result);
      EXPECT_TRUE(answers.emplace(each.ticket, std::move(*each.result)).second);
    }
  }
  EXPECT_EQ(answers[all].rows.size(), 50u);
  EXPECT_FALSE(answers[all].more);
  EXPECT_EQ(answers[some].rows.size(), 7u);
  EXPECT_TRUE(answers[some].more);
  EXPECT_EQ(answers[back].rows[0].key, view::order_key(0, writer.at().last_sequence));
  EXPECT_EQ(answers[small].rows.size(), 1u);
  EXPECT_TRUE(answers[small].more);
}

REGISTER_TYPED_TEST_SUITE_P(JournalContract, ANewPartitionIsEmptyAndItsChainIsTheGenesis,
                            EveryOwnerGetsAHigherEpochAndStandsWhereTheLastOneStopped,
                            TicketsOfOnePartitionCompleteInOrder, WhatIsReadBackIsWhatWasWritten,
                            ViewChangesPutAndDeleteTogetherWithTheirRecords,
                            AfterAnotherOwnerTheOldOneIsFencedAndWritesNothing,
                            WhatWasToldDurableSurvivesACrashAndTheRestIsAPrefix,
                            ViewTicketsAreAnsweredWithTheRowsOfTheirRange);

}  // namespace sandglass::engine::journal
