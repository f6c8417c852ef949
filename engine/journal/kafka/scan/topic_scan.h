// A topic read from its beginning, or its last messages, to where it ends now, without a consumer group's
// positions. A look, not a subscription: a partition whose leader has just changed may seem to end earlier
// than it does (J25 does not believe such an end).
//
// Blocking. Thread rule: one thread. Errors: those of cluster/trouble.h; record_damaged when the topic has
// lost its beginning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/cluster/trouble.h"
#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka::scan {

enum class Isolation : std::uint8_t {
  published,  // read_committed: what readers see
  everything,
};

class TopicScan {
 public:
  /// `timeout_ms`: for each wait for the brokers. `stop` ends such a wait early.
  static base::Result<std::unique_ptr<TopicScan>> open(const cluster::Settings& brokers,
                                                       const std::string& topic, Isolation isolation,
                                                       std::int64_t timeout_ms, std::stop_token stop = {});

  std::uint16_t partitions() const { return partitions_; }
  const std::string& cluster() const { return cluster_; }
  /// Calls `take` for each message, in order, until it returns false.
  base::Status read(core::PartitionId partition, const std::function<bool(const Message&)>& take);
  /// The same for the last `messages` at most: offsets that hold no message count as well.
  base::Status read_last(core::PartitionId partition, std::int64_t messages,
                         const std::function<bool(const Message&)>& take);

 private:
  TopicScan() = default;
  base::Status read_from(core::PartitionId partition, std::int64_t offset,
                         const std::function<bool(const Message&)>& take);

  std::string topic_;
  std::string cluster_;
  std::uint16_t partitions_ = 0;
  std::int64_t timeout_ms_ = 0;
  std::stop_token stop_;
  cluster::Trouble trouble_;  // outlives the client
  cluster::Client client_;
};

}  // namespace sandglass::engine::journal::kafka::scan
