// Sends the records of an embedded journal to Kafka, behind the journal and without any hold on it: whatever
// the brokers do, runs go on, and what could not be sent is sent when they answer again.
//
//   journal ──durable──▶ reader ──▶ producer (idempotent, without a time limit) ──acknowledged──▶ heads ──now
//   and then──▶ file
//
// A session begins with the check of topic and brokers, and with a producer of its own; it ends with the
// first error that the producer does not get over by itself. The next one begins at the last acknowledged
// record: what stood behind it may come twice, nothing is left out. Whatever stands in the way is tried
// again until it is gone: brokers that are away, a topic that is missing, a file that is damaged.
//
// Thread rule: one thread of its own; the public methods from any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/wakeup.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/publisher/published.h"
#include "engine/journal/reader.h"

namespace sandglass::engine::journal::kafka::publisher {

struct PublisherOptions {
  cluster::Settings brokers;
  std::string topic = "history";
  std::string file;  // of published.h
};

/// For `doctor`, and for whoever asks whether everything is out.
struct PublisherStatus {
  bool caught_up = false;              // all that was durable when it last looked is acknowledged
  std::uint64_t published = 0;         // records that brokers have, of all partitions
  std::uint64_t waiting = 0;           // sent, not yet acknowledged
  std::optional<base::Error> trouble;  // why nothing is acknowledged now
};

class Publisher {
 public:
  /// Begins at once, on its thread. `reader` must bear reads from there; `news` is signalled when more is
  /// durable. Both outlive it.
  Publisher(PublisherOptions options, const Reader& reader, base::Wakeup& news);
  /// Takes what is acknowledged by then into the file; waits for no broker.
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  PublisherStatus status() const;

 private:
  void run();
  base::Status load();
  /// Sends until it is to stop, or until an error, which it returns.
  base::Status session(std::int64_t check_ms);
  void report(PublisherStatus status);
  void tell(const PublisherStatus& status);
  void save();

  const PublisherOptions options_;
  const Reader& reader_;
  base::Wakeup& news_;
  // Of the thread:
  std::optional<Published> published_;  // nothing: not loaded yet
  Published saved_;                     // what the file says
  std::set<base::Code> told_;           // the troubles that the log has, since it last went on
  std::uint64_t published_when_told_ = 0;
  bool save_failed_ = false;

  mutable std::mutex mutex_;
  PublisherStatus status_;
  std::stop_source stop_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal::kafka::publisher
