// M6: an embedded journal's records go to a real topic behind its back: complete, in order, from where it
// was, whatever the brokers do; the journal never waits.
#include "engine/journal/kafka/publisher/publisher.h"

#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>

#include "engine/base/data_folder.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/scan/topic_scan.h"
#include "tests/engine/journal/journal_fixture.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::journal::kafka::publisher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tests::support::Admin;
using tests::support::Brokers;
using tests::support::new_topic_name;
using tests::support::TempFolder;

constexpr std::int64_t timeout_ms = 30'000;

/// What a reader has of a topic.
struct Seen {
  std::map<core::PartitionId, AppliedHead> heads;
  std::uint64_t again = 0;
};

Seen read_topic(const std::string& bootstrap, const std::string& topic) {
  Seen seen;
  auto scan = scan::TopicScan::open({.bootstrap = bootstrap}, topic, scan::Isolation::published, timeout_ms);
  EXPECT_TRUE(scan) << scan.error().message;
  for (core::PartitionId partition = 0; scan && partition < (*scan)->partitions(); ++partition) {
    std::vector<base::Hash256> chains;
    ApplyRule rule(
        kMeta.journal_id, {.chain = codec::genesis_chain(kMeta.journal_id, partition)},
        [&](core::Sequence sequence) -> std::optional<base::Hash256> { return chains.at(sequence - 1); },
        Epochs::unannounced);
    const auto read = (*scan)->read(partition, [&](const Message& message) {
      const auto envelope = decode_envelope(message);
      EXPECT_TRUE(envelope) << envelope.error().message;
      const auto record = decode_record(*envelope, message.value, partition);
      EXPECT_TRUE(record) << record.error().message;
      const auto judgement = rule.judge(*envelope, record->link.chain);
      EXPECT_TRUE(judgement.verdict == Verdict::apply || judgement.verdict == Verdict::skip) << judgement.why;
      if (judgement.verdict == Verdict::apply) chains.push_back(record->link.chain);
      if (judgement.verdict == Verdict::skip) ++seen.again;
      return true;
    });
    EXPECT_TRUE(read) << read.error().message;
    seen.heads[partition] = rule.head();
  }
  return seen;
}

class PublisherTest : public testing::Test {
 protected:
  PublisherTest() {
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
      writers_.emplace(partition, Writer(partition, *journal_->own(partition)));
    }
  }

  std::unique_ptr<Publisher> start() {
    return std::make_unique<Publisher>(
        PublisherOptions{.brokers = {.bootstrap = brokers_.bootstrap()}, .topic = topic_, .file = file_},
        *reader_, news_);
  }
  /// So many records more in each partition, durable when it returns.
  void write(std::size_t records) {
    for (auto& [partition, writer] : writers_) journal_->submit(writer.batch(records));
    wait_for(*journal_, kPartitions);
  }
  std::uint64_t written() const {
    std::uint64_t sum = 0;
    for (const auto& [partition, writer] : writers_) sum += writer.at().last_sequence;
    return sum;
  }
  /// Until every record is acknowledged.
  void publish(const Publisher& publisher) {
    news_.signal();
    for (auto status = publisher.status(); !status.caught_up || status.published < written();
         status = publisher.status()) {
      std::this_thread::yield();
    }
  }
  static base::Error trouble(const Publisher& publisher) {
    for (;;) {
      if (const auto status = publisher.status(); status.trouble) return *status.trouble;
      std::this_thread::yield();
    }
  }
  Seen expect_whole() {
    Seen seen = read_topic(brokers_.bootstrap(), topic_);
    for (const auto& [partition, writer] : writers_) {
      EXPECT_EQ(seen.heads[partition].sequence, writer.at().last_sequence);
      EXPECT_EQ(seen.heads[partition].chain, writer.at().chain);
    }
    return seen;
  }

  Brokers& brokers_ = Brokers::one();
  Admin admin_{brokers_.bootstrap()};
  TempFolder folder_;
  std::string file_ = folder_.file("published");
  std::string topic_ = new_topic_name();
  RocksStore store_;
  std::unique_ptr<Journal> journal_ = store_.open();
  base::Wakeup news_;
  std::optional<RowReader> reader_{std::in_place, store_.view()};  // of the journal that is open
  std::map<core::PartitionId, Writer> writers_;
};

TEST_F(PublisherTest, WhatWasThereAndWhatComesArrivesOnceAndInOrder) {
  write(100);
  const auto publisher = start();
  publish(*publisher);
  for (int more = 0; more < 20; ++more) write(7);
  publish(*publisher);
  EXPECT_EQ(publisher->status().published, written());
  EXPECT_FALSE(publisher->status().trouble);
  EXPECT_EQ(expect_whole().again, 0u);
}

TEST_F(PublisherTest, TheNextOneGoesOnWhereTheFileSays) {
  write(50);
  {
    const auto first = start();
    publish(*first);
  }
  const auto saved = load_published(file_);
  ASSERT_TRUE(saved && *saved);
  for (const auto& [partition, writer] : writers_) {
    EXPECT_EQ((*saved)->heads[partition].sequence, writer.at().last_sequence);
  }
  store_.crash(journal_);
  journal_ = store_.open();
  reader_.emplace(store_.view());
  for (auto& [partition, writer] : writers_)
    writer = Writer(partition, *journal_->own(partition));  // a new epoch
  write(5);
  const auto second = start();
  publish(*second);
  EXPECT_EQ(expect_whole().again, 0u);
}

TEST_F(PublisherTest, WithAnOlderFileOrNoneRecordsComeAgainWithEqualHashes) {
  write(10);
  {
    publish(*start());
  }
  const auto older = load_published(file_);
  ASSERT_TRUE(older && *older);
  write(10);
  {
    publish(*start());
  }
  ASSERT_TRUE(save_published(file_, **older));
  {
    publish(*start());
  }
  EXPECT_EQ(expect_whole().again, 4u * 10u);
  std::filesystem::remove(file_);
  {
    publish(*start());
  }
  EXPECT_EQ(expect_whole().again, 4u * 30u);
}

TEST_F(PublisherTest, WhileNoBrokerAnswersTheJournalGoesOnAndAfterwardsAllIsThere) {
  write(10);
  const auto publisher = start();
  publish(*publisher);
  for (const bool dead : {false, true}) {
    dead ? brokers_.kill(1) : brokers_.pause(1);
    for (int more = 0; more < 30; ++more) write(20);
    news_.signal();
    if (dead) EXPECT_EQ(trouble(*publisher).code, base::Code::brokers_unreachable);
    EXPECT_LT(publisher->status().published, written());
    brokers_.heal();
    publish(*publisher);
  }
  expect_whole();
}

TEST_F(PublisherTest, BegunWithoutBrokersItWaitsForThem) {
  brokers_.kill(1);
  write(3);
  const auto publisher = start();
  brokers_.heal();
  publish(*publisher);
  expect_whole();
}

TEST_F(PublisherTest, OfATopicThatIsGoneOrNewNothingIsWrittenBehindALostBeginning) {
  write(10);
  {
    publish(*start());
  }
  ASSERT_THAT(admin_.delete_topic(topic_), IsEmpty());
  while (admin_.leader(topic_) >= 0) std::this_thread::yield();
  {
    const auto publisher = start();
    EXPECT_EQ(trouble(*publisher).code, base::Code::topic_missing);
  }
  ASSERT_THAT(admin_.create_topic(topic_, kPartitions, 1,
                                  {{"cleanup.policy", "delete"},
                                   {"retention.ms", "-1"},
                                   {"retention.bytes", "-1"},
                                   {"message.timestamp.type", "LogAppendTime"},
                                   {"flush.messages", "1"}}),
              IsEmpty());
  while (admin_.leader(topic_) < 0) std::this_thread::yield();  // the broker knows it a moment later
  {
    const auto publisher = start();
    const base::Error error = trouble(*publisher);
    EXPECT_EQ(error.code, base::Code::topic_foreign);
    EXPECT_THAT(error.message, HasSubstr("deleted and made again"));
  }
  for (const auto& [partition, head] : read_topic(brokers_.bootstrap(), topic_).heads)
    EXPECT_EQ(head.sequence, 0u);
  std::filesystem::remove(file_);
  {
    publish(*start());
  }
  expect_whole();
}

TEST_F(PublisherTest, AnOlderCopyOfTheFolderPublishesNothing) {
  write(10);
  {
    publish(*start());
  }
  auto ahead = load_published(file_);
  ASSERT_TRUE(ahead && *ahead);
  (*ahead)->heads[1].sequence += 5;  // as if more had been published than this journal has
  ASSERT_TRUE(save_published(file_, **ahead));
  const auto publisher = start();
  const base::Error error = trouble(*publisher);
  EXPECT_EQ(error.code, base::Code::topic_foreign);
  EXPECT_THAT(error.message, HasSubstr("older copy"));
}

TEST_F(PublisherTest, AnOlderCopyOfTheWholeFolderPublishesNothingBehindWhatItDoesNotHave) {
  write(10);
  publish(*start());
  const auto older = load_published(file_);
  ASSERT_TRUE(older && *older);
  write(10);
  publish(*start());
  // The copy: as the folder was after the first ten, file and all, and then another history.
  RocksStore copy;
  const auto journal = copy.open();
  const RowReader reader(copy.view());
  for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
    Writer writer(partition, *journal->own(partition));
    journal->submit(writer.batch(10));
    if (partition == 0) journal->submit(writer.batch(3, 99));
  }
  wait_for(*journal, kPartitions + 1);
  ASSERT_TRUE(save_published(file_, **older));
  base::Wakeup news;
  const Publisher publisher({.brokers = {.bootstrap = brokers_.bootstrap()}, .topic = topic_, .file = file_},
                            reader, news);
  const base::Error error = trouble(publisher);
  EXPECT_EQ(error.code, base::Code::topic_foreign);
  EXPECT_THAT(error.message, HasSubstr("older copy"));
  EXPECT_EQ(expect_whole().again, 0u);
}

TEST_F(PublisherTest, BehindAnotherJournalsRecordsNothingIsWritten) {
  write(2);
  publish(*start());
  std::filesystem::remove(file_);
  RocksStore other({.journal_id = "another", .partitions = kPartitions});
  const auto journal = other.open();
  const RowReader reader(other.view());
  base::Wakeup news;
  const Publisher publisher({.brokers = {.bootstrap = brokers_.bootstrap()}, .topic = topic_, .file = file_},
                            reader, news);
  EXPECT_THAT(trouble(publisher).message, HasSubstr("ends with a record of journal " + kMeta.journal_id));
  EXPECT_EQ(expect_whole().again, 0u);
}

TEST_F(PublisherTest, ATopicThatWouldLoseHistoryIsNotWrittenTo) {
  write(1);
  ASSERT_THAT(admin_.create_topic(topic_, kPartitions, 1, {}), IsEmpty());
  const auto publisher = start();
  EXPECT_EQ(trouble(*publisher).code, base::Code::topic_unsafe);
}

TEST_F(PublisherTest, WithAFileOfAnotherJournalOrADamagedOneItWaitsUntilThatIsGone) {
  write(3);
  Published other{.journal = "another", .cluster = "c", .topic = topic_};
  other.heads.resize(kPartitions);
  ASSERT_TRUE(save_published(file_, other));
  const auto publisher = start();
  EXPECT_EQ(trouble(*publisher).code, base::Code::topic_foreign);
  ASSERT_TRUE(base::write_whole_file(file_, "sandglass published 1\n"));
  base::Error error = trouble(*publisher);
  while (error.code != base::Code::record_damaged) error = trouble(*publisher);
  EXPECT_THAT(error.message, HasSubstr(file_));
  std::filesystem::remove(file_);
  publish(*publisher);
  EXPECT_EQ(expect_whole().again, 0u);
}

TEST(PublishedFile, ComesBackAsItWasAndEveryChangedByteIsFound) {
  Published published{.journal = "j", .cluster = "", .topic = "history"};
  published.heads = {{.sequence = 0},
                     {.sequence = 18'446'744'073'709'551'615ULL, .chain = base::sha256("x")}};
  const std::string text = encode_published(published);
  const auto back = decode_published(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, published);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 0x04);
    EXPECT_FALSE(decode_published(changed)) << at;
    EXPECT_FALSE(decode_published(text.substr(0, at))) << at;
  }
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka::publisher
