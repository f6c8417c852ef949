// A process that is killed at random moments: every start works, every acknowledged record is there (FR-86).
#include <gtest/gtest.h>

#include "engine/base/draw.h"
#include "tests/engine/journal/journal_fixture.h"
#include "tests/engine/journal/writer_process.h"

namespace sandglass::engine::journal {
namespace {

/// Walks the partition's chain from its genesis; its length.
core::Sequence walk(const view::View& view, core::PartitionId partition) {
  const RowReader reader(view);
  base::Hash256 chain = codec::genesis_chain(kMeta.journal_id, partition);
  core::Sequence last = 0;
  while (true) {
    const auto read = reader.read_order(partition, last + 1, 1000);
    EXPECT_TRUE(read) << read.error().message;
    if (!read || read->empty()) return last;
    for (const core::OrderedRecord& each : *read) {
      EXPECT_EQ(each.link.sequence, ++last);
      EXPECT_EQ(each.link.leaf, codec::leaf_hash(each.record));
      chain = codec::chain_hash(chain, partition, last, each.link.epoch, each.link.leaf);
      EXPECT_EQ(each.link.chain, chain);
    }
  }
}

TEST(JournalUnderSigkill, EveryStartWorksAndEveryAcknowledgedRecordIsThere) {
  const int rounds = std::getenv("SANDGLASS_LONG") != nullptr ? 1000 : 25;
  tests::support::TempFolder folder;
  tests::support::SeededRandom random(20);
  for (int round = 0; round < rounds; ++round) {
    WriterProcess writer(folder.file("journal"), 0);
    writer.listen(base::draw_below(random, 60));  // kills also while it opens and takes ownership
    writer.kill();
    ASSERT_TRUE(WIFSIGNALED(writer.end())) << "round " << round;
    const auto database = view::Database::open({.path = folder.file("journal")});
    ASSERT_TRUE(database) << database.error().message;
    const view::RocksView view(**database, 0);
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
      const core::Sequence last = walk(view, partition);
      const auto acknowledged = writer.acknowledged().find(partition);
      if (acknowledged != writer.acknowledged().end()) EXPECT_GE(last, acknowledged->second);
      EXPECT_EQ(last % 4, 0u) << "half a batch is in the journal";
    }
  }
}

}  // namespace
}  // namespace sandglass::engine::journal
