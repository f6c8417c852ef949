// One producer's life: sends records in order and hears of each that it is acknowledged.
// Thread rule: one thread; `wakeup` is signalled when poll has something to hear.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/wakeup.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/cluster/trouble.h"
#include "engine/journal/kafka/publisher/published.h"
#include "engine/journal/reader.h"

namespace sandglass::engine::journal::kafka::publisher {

class Session {
 public:
  /// `published` must outlive it: its heads move as records are acknowledged.
  static base::Result<std::unique_ptr<Session>> begin(const cluster::Settings& brokers, const Reader& reader,
                                                      Published& published, base::Wakeup& wakeup);
  ~Session();

  /// Hears what is acknowledged, then sends what is durable, as far as there is room. An error: the session
  /// is over.
  base::Status poll();
  /// Nothing is under way, and nothing was left to send at the last poll.
  bool caught_up() const { return in_flight_ == 0 && !more_; }
  std::size_t in_flight() const { return in_flight_; }
  /// What the producer struggles with while nothing is acknowledged.
  std::optional<base::Error> trouble() const;

 private:
  struct Sent {
    ChainHead head;
    std::size_t bytes = 0;
  };
  struct Partition {
    ChainHead next_to;      // the last record that was given to the producer
    std::deque<Sent> sent;  // not yet acknowledged, in order
  };

  Session(const Reader& reader, Published& published) : reader_(reader), published_(published) {}
  base::Result<bool> send_some(core::PartitionId partition);
  base::Result<bool> send(core::PartitionId partition, const core::OrderedRecord& record);
  void report(const rd_kafka_message_t& message);

  const Reader& reader_;
  Published& published_;
  std::vector<Partition> partitions_;
  std::size_t in_flight_ = 0;
  std::size_t in_flight_bytes_ = 0;
  bool more_ = true;
  std::optional<base::Error> failed_;
  cluster::Trouble trouble_;  // outlives the client
  cluster::Queue events_;
  cluster::Client client_;
};

}  // namespace sandglass::engine::journal::kafka::publisher
