#include "replay-tools/audit/audit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/codec/record.h"
#include "engine/journal/rows/move.h"
#include "engine/view/memory/view.h"
#include "tests/replay-tools/replay/history_fixture.h"
#include "tests/support/seeded_random.h"

namespace sandglass::replay_tools::audit {
namespace {

namespace keys = engine::view;

class Audit : public testing::Test {
 protected:
  Audit() {
    for (int i = 0; i < 6; ++i) streams_.push_back(histories_.sample(std::to_string(i)));
  }
  Report verified(const std::vector<Head>& known = {}) {
    auto report = verify(histories_.reader, known);
    EXPECT_TRUE(report) << report.error().message;
    return *report;
  }
  static bool names(const Report& report, const core::StreamId& stream, std::uint64_t seq) {
    return std::ranges::any_of(report.findings,
                               [&](const Finding& each) { return each.stream == stream && each.seq == seq; });
  }
  /// The order row of a stream's record.
  std::string order_key_of(const core::StreamId& stream, std::uint64_t seq) const {
    const core::PartitionId partition = keys::partition_of(stream.bucket(), Histories::kPartitions);
    for (core::Sequence sequence = 1;; ++sequence) {
      const auto link =
          codec::decode_order(sequence, *histories_.disk.get(keys::order_key(partition, sequence)));
      if (link->stream == stream && link->stream_seq == seq) return keys::order_key(partition, sequence);
    }
  }
  void swap_rows(const std::string& a, const std::string& b) {
    const auto first = histories_.disk.get(a);
    histories_.disk.tamper(a, histories_.disk.get(b));
    histories_.disk.tamper(b, first);
  }

  Histories histories_;
  std::vector<core::StreamId> streams_;
};

TEST_F(Audit, AnUntouchedJournalIsGood) {
  const Report report = verified();
  EXPECT_TRUE(report.good());
  EXPECT_EQ(report.records, 6u * 9u);
  EXPECT_EQ(report.streams, 6u);
  EXPECT_EQ(report.heads.size(), Histories::kPartitions);
  EXPECT_TRUE(verified(report.heads).good());
}

/// J22: the journal that these records came from had another chain over them, and a move names its heads.
TEST_F(Audit, RecordsOfAMovedJournalMustBeThoseOfTheFormer) {
  sandglass::tests::support::SeededRandom random(1);
  const engine::view::MemoryView view(histories_.disk, random);
  const auto meta = journal::read_meta(view);
  ASSERT_TRUE(meta) << meta.error().message;
  journal::Move move{.from = "former", .to = "to", .place = "place", .folder = "folder"};
  for (core::PartitionId partition = 0; partition < meta->partitions; ++partition) {
    journal::ChainHead head{.chain = codec::genesis_chain(move.from, partition)};
    const auto own = journal::read_ownership(view, *meta, partition);
    for (core::Sequence sequence = 1; sequence <= own->last_sequence; ++sequence) {
      const auto link =
          codec::decode_order(sequence, *histories_.disk.get(keys::order_key(partition, sequence)));
      head = {sequence, codec::chain_hash(head.chain, partition, sequence, link->epoch, link->leaf)};
    }
    move.heads.push_back(head);
  }
  const auto tell = [&](const journal::Move& told) {
    for (core::PartitionId partition = 0; partition < meta->partitions; ++partition) {
      const auto rows =
          journal::owners_record_rows(view, *meta, partition, journal::encode_move(told), 1'000);
      ASSERT_TRUE(rows) << rows.error().message;
      for (const auto& row : *rows) histories_.disk.tamper(row.key, row.value);
    }
  };
  tell(move);
  EXPECT_TRUE(verified().good()) << verified().findings.front().what;
  journal::Move wrong = move;
  wrong.heads[0].chain = base::sha256("another history");
  tell(wrong);
  const Report report = verified();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_NE(report.findings[0].what.find("journal former"), std::string::npos) << report.findings[0].what;
}

TEST_F(Audit, EveryChangedByteOfARecordIsFoundAndTheRecordNamed) {
  const std::string key = keys::record_key(streams_[2], 5);
  const std::string row = *histories_.disk.get(key);
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::string changed = row;
    changed[i] = static_cast<char>(changed[i] ^ 0x01);
    histories_.disk.tamper(key, changed);
    const Report report = verified();
    ASSERT_FALSE(report.good()) << "byte " << i;
    const bool named = names(report, streams_[2], 5) ||
                       report.findings[0].what.find(streams_[2].text()) != std::string::npos;
    EXPECT_TRUE(named) << "byte " << i << ": " << report.findings[0].what;
    EXPECT_GE(report.records, 6u * 9u - 1u) << "what follows the damage was not read";
  }
}

TEST_F(Audit, EveryChangedByteOfAnOrderRowIsFound) {
  const std::string key = order_key_of(streams_[2], 5);
  const std::string row = *histories_.disk.get(key);
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::string changed = row;
    changed[i] = static_cast<char>(changed[i] ^ 0x01);
    histories_.disk.tamper(key, changed);
    EXPECT_FALSE(verified().good()) << "byte " << i;
  }
}

TEST_F(Audit, ADroppedRecordIsFoundWhicheverRowsWentWithIt) {
  const std::string order = order_key_of(streams_[1], 4);
  histories_.disk.tamper(order, std::nullopt);
  EXPECT_TRUE(names(verified(), streams_[1], 5)) << "the record that follows in its stream must be named";
  histories_.disk.tamper(keys::record_key(streams_[1], 4), std::nullopt);
  EXPECT_FALSE(verified().good());
  const auto alone = verify_stream(histories_.reader, streams_[1]);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(names(*alone, streams_[1], 5));
}

TEST_F(Audit, ReorderedRecordsAreFound) {
  swap_rows(order_key_of(streams_[0], 3), order_key_of(streams_[0], 4));
  EXPECT_FALSE(verified().good());
}

TEST_F(Audit, ExchangedRecordsOfOneStreamAreFound) {
  swap_rows(keys::record_key(streams_[0], 3), keys::record_key(streams_[0], 4));
  EXPECT_FALSE(verified().good());
  EXPECT_FALSE(verify_stream(histories_.reader, streams_[0])->good());
}

TEST_F(Audit, RecordsCutOffAtTheEndAreFoundAgainstAnEarlierHead) {
  const Report before = verified();
  const Head& head = before.heads[0];
  ASSERT_GT(head.sequence, 0u);
  const std::string key = keys::order_key(head.partition, head.sequence);
  const auto link = codec::decode_order(head.sequence, *histories_.disk.get(key));
  histories_.disk.tamper(key, std::nullopt);
  histories_.disk.tamper(keys::record_key(link->stream, link->stream_seq), std::nullopt);
  EXPECT_TRUE(verified().good()) << "inside the journal nothing tells of it";
  EXPECT_FALSE(verified(before.heads).good());
}

/// What is in a table whose blocks cannot be read from some order row on; also not where the partition ends.
class CutReader final : public journal::Reader {
 public:
  CutReader(const journal::Reader& inner, core::Sequence first, core::Sequence last)
      : inner_(inner), first_(first), last_(last) {}
  base::Result<std::uint16_t> partitions() const override { return inner_.partitions(); }
  base::Result<std::string> journal_id() const override { return inner_.journal_id(); }
  base::Result<std::vector<core::OrderedRecord>> read_order(core::PartitionId partition, core::Sequence from,
                                                            std::size_t limit) const override {
    if (from <= last_ && from + limit > first_)
      return base::fail(base::Code::record_damaged, "block checksum mismatch");
    return inner_.read_order(partition, from, limit);
  }
  base::Result<std::vector<core::StoredRecord>> read_stream(const core::StreamId& stream,
                                                            std::uint64_t from_seq,
                                                            std::size_t limit) const override {
    return inner_.read_stream(stream, from_seq, limit);
  }

 private:
  const journal::Reader& inner_;
  core::Sequence first_, last_;
};

TEST_F(Audit, APartitionWhoseEndCannotBeReadIsVerifiedUpToThereAndTheVerificationEnds) {
  const auto report = verify(CutReader(histories_.reader, 5, ~core::Sequence{0}));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->good());
  EXPECT_EQ(report->records, Histories::kPartitions * 4u);
}

TEST_F(Audit, WhatFollowsADamagedStretchIsVerified) {
  const auto report = verify(CutReader(histories_.reader, 5, 8));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->records, 6u * 9u - Histories::kPartitions * 4u);
}

TEST_F(Audit, TheLogNamesEveryRecordWithItsEventsAndItsCause) {
  std::vector<LogLine> lines;
  for (core::PartitionId partition = 0; partition < Histories::kPartitions; ++partition) {
    const auto read = read_log(histories_.reader, histories_.kinds, partition, 1, [&](const LogLine& line) {
      lines.push_back(line);
      return true;
    });
    ASSERT_TRUE(read) << read.error().message;
  }
  ASSERT_EQ(lines.size(), 6u * 9u);
  const auto first = std::ranges::find_if(
      lines, [&](const LogLine& line) { return line.stream == streams_[0] && line.seq == 1; });
  ASSERT_NE(first, lines.end());
  EXPECT_EQ(first->request_id, "start");
  EXPECT_EQ(first->events[0].name, "RunStarted");
  EXPECT_EQ(first->time_ms, 1'000);
}

}  // namespace
}  // namespace sandglass::replay_tools::audit
