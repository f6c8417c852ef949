// Whether topic and brokers keep what they acknowledge (J28). Asked when a topic is made, at start, at every
// takeover, now and then by an owner, and by `doctor`: settings can be changed underneath.
//
// Blocking, for at most the time that is given. Thread rule: functions without state; each makes a client of
// its own. Errors: brokers_unreachable, brokers_refuse_us, brokers_forbid, topic_missing, topic_unsafe,
// topic_foreign, brokers_too_old, config_invalid; the message names every finding, what the value must be,
// and the command that sets it.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::cluster {

/// What the journal rests on.
struct TopicRules {
  std::string topic = "history";
  std::int32_t partitions = 8;
  /// At least so large must a batch of messages be allowed to be: a record (J2) and its headers, or many
  /// small ones.
  std::int64_t batch_bytes = 1 << 20;
  /// The id of the cluster that the topic must be on; empty: any, as for a new journal.
  std::string cluster;
};

/// A topic that keeps the rules, and what it rests on.
struct TopicState {
  std::string cluster;  // the cluster's id, to be compared later
  std::int32_t replicas = 0;
  /// A single broker, which flushes every batch: acknowledged records live as long as its disk.
  bool one_broker = false;
  /// Brokers that are known and did not answer: what they are set to is not known.
  std::vector<std::string> silent;
};

/// Checks the topic and the brokers. `stop` ends the wait for brokers early, with the error of a wait in
/// vain.
base::Result<TopicState> check_topic(const Settings& settings, const TopicRules& rules,
                                     std::int64_t timeout_ms, std::stop_token stop = {});

/// Makes the topic where it does not exist, with the settings that it needs, and checks it, made or found.
base::Result<TopicState> make_topic(const Settings& settings, const TopicRules& rules,
                                    std::int64_t timeout_ms, std::stop_token stop = {});

}  // namespace sandglass::engine::journal::kafka::cluster
