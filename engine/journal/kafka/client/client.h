// The Broker port on librdkafka: for each partition one transactional producer, for each kind of reading one
// consumer that all partitions share.
//
// Calls of librdkafka that block (init_transactions, commit_transaction) run on a thread of the partition's
// own; delivery reports and messages come from librdkafka's queues, which write to the wake descriptor. The
// producer is never flushed: reports are drained instead (J24). An error of any kind is told once, and the
// object is of no more use (J27); destroying it purges what waits.
//
// Thread rule: as broker.h; brokers of several partitions may be used by several threads. Ownership: the
// client outlives its brokers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/broker.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::client {

struct ClientOptions {
  cluster::Settings settings;
  std::string topic;
  std::string journal_id;        // transactional ids begin with it
  std::uint16_t partitions = 1;  // of the topic: what is read ahead is shared among them
  std::int64_t transaction_timeout_ms = 60'000;
  std::int64_t delivery_timeout_ms = 30'000;  // then what was produced is unknown
};

class KafkaClient {
 public:
  static base::Result<std::unique_ptr<KafkaClient>> open(ClientOptions options);
  ~KafkaClient();
  KafkaClient(const KafkaClient&) = delete;
  KafkaClient& operator=(const KafkaClient&) = delete;

  /// `wake_fd`: an eventfd, open for as long as the broker is.
  base::Result<std::unique_ptr<Broker>> broker(core::PartitionId partition, int wake_fd);

 private:
  struct Consumers;
  KafkaClient(ClientOptions options, std::unique_ptr<Consumers> consumers);

  ClientOptions options_;
  std::unique_ptr<Consumers> consumers_;
};

}  // namespace sandglass::engine::journal::kafka::client
