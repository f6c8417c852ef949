// One kind of reading for all partitions of a topic: a consumer without a group, from positions that we keep
// ourselves.
// Thread rule: start and stop from one thread each partition; a Reading as its partition's broker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/broker.h"
#include "engine/journal/kafka/client/client.h"

namespace sandglass::engine::journal::kafka::client {

class Consumer {
 public:
  static base::Result<std::unique_ptr<Consumer>> open(const ClientOptions& options, Reading reading);

  rd_kafka_t* client() const { return client_.get(); }
  rd_kafka_topic_t* topic() const { return topic_.get(); }
  Reading reading() const { return reading_; }

 private:
  explicit Consumer(Reading reading) : reading_(reading) {}

  Reading reading_;
  cluster::Client client_;
  cluster::TopicHandle topic_;
};

/// A partition being read; ends with the object.
class PartitionReading {
 public:
  PartitionReading(Consumer& consumer, core::PartitionId partition, std::int64_t from, std::uint64_t token,
                   int wake_fd);
  ~PartitionReading();
  PartitionReading(const PartitionReading&) = delete;
  PartitionReading& operator=(const PartitionReading&) = delete;

  void poll(std::vector<BrokerEvent>& events);

 private:
  void take(const rd_kafka_message_t& message, std::vector<BrokerEvent>& events);
  ReadMessage read(const rd_kafka_message_t& message);

  Consumer& consumer_;
  const core::PartitionId partition_;
  const std::uint64_t token_;
  const int wake_fd_;
  cluster::Queue queue_;
  std::string refused_;              // why it could not begin
  std::vector<HeaderView> headers_;  // of the message at hand
};

}  // namespace sandglass::engine::journal::kafka::client
