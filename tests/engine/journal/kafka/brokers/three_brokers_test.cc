// An owner on three brokers that die: what it was told durable is there once, whatever is killed; with two of
// three gone nothing is acknowledged, and it heals. In the long form.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tests/engine/journal/kafka/brokers/kafka_store.h"
#include "tests/engine/journal/kafka/brokers/topic_readers.h"

namespace sandglass::engine::journal::kafka {
namespace {

using tests::support::Brokers;

constexpr std::int64_t kDeliveryTimeoutMs = 10'000;
constexpr int kBatches = 200;
constexpr std::size_t kInFlight = 16;

class KafkaThreeBrokers : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SANDGLASS_LONG") == nullptr) GTEST_SKIP() << "minutes: in the long form";
    brokers_ = &Brokers::three();
    brokers_->heal();
    topic_ = make_test_topic(brokers_->bootstrap());
    node_ = std::make_unique<Node>(brokers_->bootstrap(), topic_, std::string(), kDeliveryTimeoutMs);
    readers_ = std::make_unique<TopicReaders>(brokers_->bootstrap(), topic_);
    own();
  }

  void own() {
    journal_.reset();
    journal_ = node_->journal();
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
  void write(int batches) {
    const std::size_t wanted = acknowledged_.size() + static_cast<std::size_t>(batches);
    while (acknowledged_.size() < wanted && !HasFatalFailure()) {
      while (under_way_.size() < kInFlight) submit();
      if (!take()) own();
      readers_->poll();
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

}  // namespace
}  // namespace sandglass::engine::journal::kafka
