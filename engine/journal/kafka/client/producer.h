// A partition's transactional producer, without blocking its caller.
// Thread rule: one thread; calls that block run on a thread of its own. Errors: as events (broker.h).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/broker.h"
#include "engine/journal/kafka/client/client.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::client {

class Producer {
 public:
  static base::Result<std::unique_ptr<Producer>> open(const ClientOptions& options,
                                                      core::PartitionId partition, int wake_fd);
  ~Producer();

  void init() { call(Call::init); }
  void commit() { call(Call::commit); }
  bool begin();
  Taken produce(const Message& message, std::uint64_t token);
  void send();
  void poll(std::vector<BrokerEvent>& events);

 private:
  enum class Call : std::uint8_t { init, commit, send };
  /// What a librdkafka producer is used by.
  struct Handles {
    cluster::Client client;
    cluster::TopicHandle topic;
    cluster::Queue queue;
  };

  Producer(const ClientOptions& options, core::PartitionId partition, int wake_fd)
      : options_(options), partition_(partition), wake_fd_(wake_fd) {}
  base::Result<Handles> make() const;
  void call(Call wanted);
  void work();
  std::optional<BrokerEvent> carry_out(Call wanted);
  base::Status make_anew();
  bool stops();
  void take_reports(rd_kafka_event_t* event, std::vector<BrokerEvent>& events);
  /// The first error of all is told, once.
  void fail(rd_kafka_resp_err_t error, const std::string& doing);

  const ClientOptions options_;
  const core::PartitionId partition_;
  const int wake_fd_;
  Handles handles_;           // until it is initialised, of `caller_`
  int pause_ms_ = 0;          // before the next one is made; of `caller_`
  bool initialised_ = false;  // as poll() has told
  bool unsent_ = false;       // something was produced since send()
  std::optional<BrokerEvent> failure_;
  bool failure_told_ = false;

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::optional<Call> call_;
  std::vector<BrokerEvent> answers_;
  bool stopping_ = false;
  std::thread caller_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal::kafka::client
