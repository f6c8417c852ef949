// A topic of its own on real brokers, and the nodes that are open on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/journal/kafka/cluster/topics.h"
#include "tests/engine/journal/kafka/brokers/kafka_node.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::journal::kafka {

/// Makes a topic that keeps the rules, with the partitions of kMeta.
inline std::string make_test_topic(const std::string& bootstrap) {
  const std::string topic = tests::support::new_topic_name();
  const auto made =
      cluster::make_topic({.bootstrap = bootstrap}, {.topic = topic, .partitions = kMeta.partitions}, 30'000);
  EXPECT_TRUE(made) << made.error().message;
  return topic;
}

class KafkaStore final : public Store {
 public:
  static constexpr core::Sequence kOwnRecords = 1;
  static constexpr bool kWholeBatches = false;  // records are whole; a batch is several messages

  KafkaStore() : topic_(make_test_topic(bootstrap())) {}
  static const std::string& bootstrap() { return tests::support::Brokers::one().bootstrap(); }
  const std::string& topic() const { return topic_; }

  std::unique_ptr<Journal> open() override {
    if (!free_) nodes_.push_back(std::make_unique<Node>(bootstrap(), topic_));
    free_ = false;
    return nodes_.back()->journal();
  }
  view::View& view() override { return nodes_.back()->view(); }
  void crash(std::unique_ptr<Journal>& journal) override {
    journal.reset();
    nodes_.back()->reopen();
    free_ = true;
  }

 private:
  std::string topic_;
  std::vector<std::unique_ptr<Node>> nodes_;
  bool free_ = false;  // the last node has no journal
};

}  // namespace sandglass::engine::journal::kafka
