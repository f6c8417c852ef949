// Verifies a journal from its Kafka topic alone: chain, order and completeness, as every reader can (J26).
//
// A message that would end that is passed over where an owner says so in the record of its epoch, further
// down (kafka/skip.h): it is named in every report. The chains that the records had in former journals are
// made anew from them (J22), as far as the records that tell of the moves are there.
//
// The journal is the one that begins the topic: its first record reaches its genesis chain, which commits to
// the id. A partition is followed as long as each record is the next one; where it is not, the finding says
// why and the rest of that partition is not believed.
//
// Thread rule: one thread. Errors: those of the source.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/journal/kafka/wire.h"
#include "replay-tools/audit/audit.h"

namespace sandglass::replay_tools::audit {

/// A topic, from its beginning to where it ends now.
class TopicSource {
 public:
  virtual ~TopicSource() = default;
  virtual std::uint16_t partitions() const = 0;
  /// Calls `take` for each message of the partition, in order, until it returns false.
  virtual engine::base::Status read(
      engine::core::PartitionId partition,
      const std::function<bool(const engine::journal::kafka::Message&)>& take) = 0;
};

struct TopicReport {
  Report report;
  std::string journal;      // empty: the topic has no record
  std::uint64_t again = 0;  // records that came a second time, with equal hash
  std::uint64_t marks = 0;  // fences and fillers, which say nothing of the history
  std::uint64_t ignored =
      0;  // messages that are not of this history: others' and malformed ones, fenced owners'
  std::vector<std::string> ignored_examples;  // at most kMostFindings
  std::vector<std::string> skipped;           // messages that owners have passed over, for people
  std::vector<std::string> formers;           // journals whose records these once were, verified
  std::vector<std::string> unchecked;         // what was not, and why
};

/// `journal`: the id that it must be; empty: that of the first record.
engine::base::Result<TopicReport> verify_topic(TopicSource& source, std::string journal = {});

}  // namespace sandglass::replay_tools::audit
