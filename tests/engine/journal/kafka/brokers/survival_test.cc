// An owner whose brokers die, forget it or answer late: what it was told durable is there, once. In the long
// form.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tests/engine/journal/kafka/brokers/kafka_store.h"
#include "tests/engine/journal/kafka/brokers/topic_readers.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/slow_way.h"

namespace sandglass::engine::journal::kafka {
namespace {

using tests::support::Brokers;

constexpr std::int64_t kDeliveryTimeoutMs = 10'000;
constexpr std::size_t kBatches = 200;
constexpr std::size_t kInFlight = 16;

class KafkaSurvival : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SANDGLASS_LONG") == nullptr) GTEST_SKIP() << "minutes: in the long form";
  }

  void begin(Brokers& brokers) {
    brokers.heal();
    begin(brokers, make_test_topic(brokers.bootstrap()));
  }

  void begin(Brokers& brokers, std::string topic) {
    brokers_ = &brokers;
    topic_ = std::move(topic);
    node_ = std::make_unique<Node>(brokers_->bootstrap(), topic_, std::string(), kDeliveryTimeoutMs);
    readers_ = std::make_unique<TopicReaders>(brokers_->bootstrap(), topic_);
    own();
  }

  void own(bool republish_from_view = false) {
    journal_.reset();
    journal_ = node_->journal({.republish_from_view = republish_from_view});
    const auto owned = journal_->own(0);
    ASSERT_TRUE(owned) << owned.error().message;
    writer_ = std::make_unique<Writer>(0, *owned);
    under_way_.clear();
  }

  void submit() {
    Batch batch = writer_->batch(2, 200);
    const core::OrderLink last = batch.records.back().link;
    under_way_.emplace(journal_->submit(std::move(batch)), std::pair(last.sequence, last.chain));
  }

  /// Takes what has ended; false: the ownership has.
  bool take() {
    std::vector<Completed> completed;
    journal_->poll(completed);
    for (const Completed& each : completed) {
      if (each.completion != Completion::durable) {
        EXPECT_EQ(each.completion, Completion::unknown) << "nobody else owns: " << each.message;
        said_ = each.message;
        return false;
      }
      const auto& [sequence, chain] = under_way_.at(each.ticket);
      acknowledged_[sequence] = chain;
      under_way_.erase(each.ticket);
    }
    if (completed.empty()) std::this_thread::yield();
    return true;
  }

  /// So many batches more are durable, by as many ownerships as that takes.
  void write(std::size_t batches) {
    const std::size_t wanted = acknowledged_.size() + batches;
    while (acknowledged_.size() < wanted && !HasFatalFailure()) {
      while (under_way_.size() < kInFlight) submit();
      if (!take()) own();
      if (readers_) readers_->poll();
    }
  }

  /// Nothing acknowledged is lost or doubled: the readers refuse a sequence twice and a break in the chain.
  void check() {
    own();
    submit();
    while (!under_way_.empty() && take()) {
    }
    ASSERT_TRUE(under_way_.empty()) << said_;
    readers_->wait_for(acknowledged_.rbegin()->first);
    for (const auto& [sequence, chain] : acknowledged_)
      ASSERT_EQ(readers_->published().at(sequence - 1), chain) << "sequence " << sequence;
  }

  /// Before the brokers end.
  void finish() {
    journal_.reset();
    readers_.reset();
    node_.reset();
  }

  Brokers* brokers_ = nullptr;
  std::string topic_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<TopicReaders> readers_;
  std::unique_ptr<KafkaJournal> journal_;
  std::unique_ptr<Writer> writer_;
  std::map<Ticket, std::pair<core::Sequence, base::Hash256>> under_way_;
  std::map<core::Sequence, base::Hash256> acknowledged_;
  std::string said_;
};

class KafkaThreeBrokers : public KafkaSurvival {
 protected:
  void SetUp() override {
    KafkaSurvival::SetUp();
    if (!IsSkipped()) begin(Brokers::three());
  }
};

/// One of them leads the partition, one coordinates the transactions.
TEST_F(KafkaThreeBrokers, EachOneKilledInTurnLosesNothing) {
  write(kBatches);
  for (int number = 1; number <= brokers_->count(); ++number) {
    for (std::size_t i = 0; i < kInFlight; ++i) submit();
    brokers_->kill(number);
    write(kBatches);
    brokers_->start(number);
    write(kBatches);
    ASSERT_FALSE(HasFatalFailure());
  }
  check();
}

// FR-105
TEST_F(KafkaThreeBrokers, WithTwoOfThemGoneNothingIsAcknowledgedUntilOneIsBack) {
  for (int kept = 1; kept <= brokers_->count(); ++kept) {
    write(kBatches);
    for (int number = 1; number <= brokers_->count(); ++number) {
      if (number != kept) brokers_->kill(number);
    }
    while (take()) {  // what was acknowledged until then counts
      if (under_way_.size() < kInFlight) submit();
    }
    EXPECT_NE(said_.find("the brokers failed"), std::string::npos) << said_;
    const std::size_t had = acknowledged_.size();
    journal_.reset();
    for (int number = 1; number <= brokers_->count(); ++number) {
      if (number != kept) brokers_->start(number);
    }
    own();
    write(kBatches);
    EXPECT_GT(acknowledged_.size(), had);
    ASSERT_FALSE(HasFatalFailure());
  }
  check();
}

TEST_F(KafkaThreeBrokers, AllKilledAtOnceAndStartedAgainLoseNothing) {
  write(kBatches);
  for (std::size_t i = 0; i < kInFlight; ++i) submit();
  brokers_->restart_all();
  write(kBatches);
  check();
}

class KafkaUncleanElection : public KafkaSurvival {
 protected:
  void SetUp() override {
    KafkaSurvival::SetUp();
    if (!IsSkipped()) lose_records();
  }

  /// Two replicas, of which one dies, then the other writes alone and dies as well, then the first comes back
  /// and leads: what was acknowledged meanwhile is gone. The third broker keeps the controllers' majority.
  void lose_records() {
    Brokers& brokers = Brokers::three();
    brokers.heal();
    admin_ = std::make_unique<tests::support::Admin>(brokers.bootstrap());
    const std::string topic = tests::support::new_topic_name();
    ASSERT_EQ(
        admin_->create_topic(topic, kMeta.partitions, 2,
                             {{"min.insync.replicas", "1"}, {"unclean.leader.election.enable", "true"}}),
        "");
    begin(brokers, topic);
    write(kBatches);
    kept_ = acknowledged_.rbegin()->first;
    readers_->wait_for(kept_);
    readers_.reset();  // they would meet the log's new end
    const int leader = admin_->leader(topic);
    const std::vector<int> replicas = admin_->replicas(topic);
    ASSERT_EQ(replicas.size(), 2u);
    const int follower = replicas[0] == leader ? replicas[1] : replicas[0];
    brokers.kill(follower);
    write(kBatches);
    lost_ = acknowledged_.rbegin()->first;
    brokers.kill(leader);
    brokers.start(follower);
    while (admin_->leader(topic) != follower) std::this_thread::yield();
    // The owner lives, and its next record meets a log that is shorter than what it has written.
    submit();
    while (!under_way_.empty() && take()) {
    }
    ASSERT_FALSE(under_way_.empty()) << "acknowledged behind a gap";
    brokers.start(leader);  // it throws away what the new leader has not
  }

  /// The partition stays closed, and what is missing is named.
  void expect_closed() {
    journal_.reset();
    journal_ = node_->journal();
    const auto owned = journal_->own(0);
    ASSERT_FALSE(owned);
    EXPECT_EQ(owned.error().code, base::Code::journal_incomplete) << owned.error().message;
    const std::string& said = owned.error().message;
    EXPECT_NE(said.find(" to " + std::to_string(lost_) + " were acknowledged"), std::string::npos) << said;
    for (const char* choice : {"kafka.republish_from_view=true", "kafka.accept_loss=true"})
      EXPECT_NE(said.find(choice), std::string::npos) << said;
  }

  std::unique_ptr<tests::support::Admin> admin_;
  core::Sequence kept_ = 0;  // the newest that the new leader certainly has
  core::Sequence lost_ = 0;  // the newest that it certainly has not
};

TEST_F(KafkaUncleanElection, KeepsThePartitionClosedUntilWhatWasLostIsPublishedAgainFromTheView) {
  for (int again = 0; again < 2; ++again) expect_closed();
  own(true);
  EXPECT_GT(writer_->at().last_sequence, lost_);
  readers_ = std::make_unique<TopicReaders>(brokers_->bootstrap(), topic_);
  write(kBatches);
  check();  // everything that was ever acknowledged is there, once
}

TEST_F(KafkaUncleanElection, KeepsThePartitionClosedUntilTheLossIsAccepted) {
  expect_closed();
  // As an operator's choice does: the view is set aside, and another is made from what the topic has.
  journal_.reset();
  node_ = std::make_unique<Node>(brokers_->bootstrap(), topic_, std::string(), kDeliveryTimeoutMs);
  readers_ = std::make_unique<TopicReaders>(brokers_->bootstrap(), topic_);
  std::erase_if(acknowledged_, [this](const auto& each) { return each.first > kept_; });
  own();
  write(kBatches);
  check();
}

/// What a broker keeps of a producer ends before the producer does.
TEST_F(KafkaSurvival, AnOwnerThatTheBrokerHasForgottenGoesOnOrIsToldSo) {
  Brokers forgetful(1,
                    "producer.id.expiration.ms=1000\n"
                    "producer.id.expiration.check.interval.ms=200\n"
                    "transactional.id.expiration.ms=2000\n"
                    "transaction.remove.expired.transaction.cleanup.interval.ms=200\n");
  begin(forgetful);
  for (int round = 0; round < 3; ++round) {
    write(kBatches);
    // Idle: its transaction ends after five seconds, and what the broker knows of it two later.
    std::this_thread::sleep_for(std::chrono::seconds(10));
    ASSERT_FALSE(HasFatalFailure());
  }
  write(kBatches);
  check();
  finish();
}

// FR-105: a delivery that was not heard of is unknown; whoever goes on reads the log first.
/// Answers that come late or never: of produced records, of commits, of the takeover's own calls.
TEST_F(KafkaSurvival, AnswersThatComeLateOrNeverLoseNothing) {
  tests::support::SlowWay way;
  Brokers behind(1, "advertised.listeners=PLAINTEXT://" + way.address() + "\n");
  way.lead_to(behind.address(1));
  begin(behind);
  for (const int delay_ms : {0, 20, 300}) {
    way.delay(delay_ms);
    for (int round = 0; round < 5; ++round) {
      write(kInFlight);
      for (std::size_t i = 0; i < kInFlight; ++i) submit();
      way.cut();
    }
    ASSERT_FALSE(HasFatalFailure());
  }
  way.delay(0);
  write(kBatches);
  check();
  finish();
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
