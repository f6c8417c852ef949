// The contract on the memory journal and the RocksDB journal; what the memory journal can do besides.
#include "tests/engine/journal/contract.h"

#include <gtest/gtest.h>

#include "tests/engine/journal/journal_fixture.h"

namespace sandglass::engine::journal {
namespace {

using Stores = testing::Types<MemoryStore, RocksStore>;
INSTANTIATE_TYPED_TEST_SUITE_P(Local, JournalContract, Stores);

TEST(MemoryJournal, AnUnknownOutcomeEndsTheOwnershipAndMayHaveBeenWritten) {
  tests::support::SeededRandom random{3};
  int written = 0;
  for (int round = 0; round < 50; ++round) {
    view::MemoryDisk disk(random);
    MemoryJournal journal(disk, random, {.meta = kMeta});
    Writer writer(0, *journal.own(0));
    journal.fail_next(0, Completion::unknown);
    journal.submit(writer.batch(1));
    journal.submit(writer.batch(1));
    for (const Completed& each : wait_for(journal, 2)) EXPECT_EQ(each.completion, Completion::unknown);
    const auto again = journal.own(0);
    ASSERT_TRUE(again);
    EXPECT_LE(again->last_sequence, 1u);
    written += again->last_sequence == 1;
    Writer next(0, *again);
    journal.submit(next.batch(1));
    EXPECT_EQ(wait_for(journal, 1).front().completion, Completion::durable);
  }
  EXPECT_GT(written, 0);
  EXPECT_LT(written, 50);
}

TEST(MemoryJournalDeathTest, ARecordOutOfSequenceIsABrokenInvariant) {
  tests::support::SeededRandom random{3};
  view::MemoryDisk disk(random);
  MemoryJournal journal(disk, random, {.meta = kMeta});
  Writer writer(0, *journal.own(0));
  writer.next(1);
  EXPECT_DEATH(journal.submit(writer.batch(1)), "does not follow");
}

}  // namespace
}  // namespace sandglass::engine::journal
