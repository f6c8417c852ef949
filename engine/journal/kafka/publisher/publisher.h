// Sends the records of an embedded journal to Kafka, behind the journal and without any hold on it: whatever
// the brokers do, runs go on, and what could not be sent is sent when they answer again.
//
//   journal ──durable──▶ reader ──▶ producer (idempotent, without a time limit) ──acknowledged──▶ heads ──now
//   and then──▶ file
//
// A session begins with the check of topic and brokers, and with a producer of its own; it ends with the
// first error that the producer does not get over by itself. The next one begins at the last acknowledged
// record: what stood behind it may come twice, nothing is left out.
//
// Thread rule: one thread of its own; the public methods from any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
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
  std::uint64_t published = 0;         // records that were acknowledged since the start
  std::uint64_t waiting = 0;           // sent, not yet acknowledged
  std::optional<base::Error> trouble;  // why nothing is acknowledged now
};

class Publisher {
 public:
  /// Reads the file; the rest happens on the thread. `reader` must outlive it and bear reads from that
  /// thread. Errors: record_damaged; topic_foreign when the file is of another journal.
  static base::Result<std::unique_ptr<Publisher>> open(PublisherOptions options, const Reader& reader);
  /// Takes what is acknowledged by then into the file; waits for no broker.
  ~Publisher();

  /// More is durable. Cheap, never blocks.
  void wake();
  PublisherStatus status() const;

 private:
  Publisher(PublisherOptions options, const Reader& reader, Published published);
  void run();
  /// Sends until it is to stop, or until an error, which it returns.
  base::Status session();
  void note(const base::Status& status);
  void save();

  const PublisherOptions options_;
  const Reader& reader_;
  Published published_;  // of the thread
  Published saved_;      // what the file says

  mutable std::mutex mutex_;
  PublisherStatus status_;
  base::Wakeup wakeup_;
  std::stop_source stop_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal::kafka::publisher
