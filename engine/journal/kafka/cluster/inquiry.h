// Questions to the brokers, each answered within what is left of one deadline: a client for topics.cc.
// Thread rule: one thread. Errors: as trouble.h has them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/cluster/trouble.h"

namespace sandglass::engine::journal::kafka::cluster {

/// A topic and the brokers, as their metadata has it.
struct Layout {
  bool exists = false;
  std::vector<std::int32_t> replicas;  // by partition: how many are assigned
  std::vector<std::int32_t> brokers;   // ids of those that are up
  std::string cluster;
};

using Config = std::map<std::string, std::string>;

/// Settings in force, defaults included.
struct Configs {
  Config topic;
  std::map<std::int32_t, Config> brokers;  // those that answered
};

class Inquiry {
 public:
  static base::Result<std::unique_ptr<Inquiry>> begin(const Settings& settings, std::int64_t timeout_ms,
                                                      std::stop_token stop);

  /// `must_exist`: waits for the topic until the deadline, as after it was made.
  base::Result<Layout> layout(const std::string& topic, bool must_exist);
  /// Waits for the topic's settings and those of a broker; for the other brokers' only a while longer.
  base::Result<Configs> configs(const std::string& topic, const std::vector<std::int32_t>& brokers);
  /// Also a success if it exists by now.
  base::Status create(const std::string& topic, std::int32_t partitions, std::int32_t replicas,
                      const Config& config);

 private:
  using Steady = std::chrono::steady_clock;

  Inquiry() = default;
  int left_ms() const;
  /// Asks for one resource; the answer comes to the queue.
  void describe(rd_kafka_ResourceType_t type, const std::string& name);
  /// Takes one answer. False: it failed in a way that another attempt may not.
  base::Result<bool> take(rd_kafka_event_t* event, const std::string& topic, Configs& configs) const;

  Trouble trouble_;  // outlives the client
  Client client_;
  Queue queue_;
  Steady::time_point deadline_;
  std::stop_token stop_;
};

}  // namespace sandglass::engine::journal::kafka::cluster
