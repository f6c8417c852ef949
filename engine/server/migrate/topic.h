// The topic's side of a move: what it has, and sending it what it lacks.
//
// Blocking. Thread rule: one thread. Errors: topic_foreign, with what else is there; those of the brokers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/reader.h"
#include "engine/journal/rows/move.h"

namespace sandglass::engine::server::migrate {

struct Topic {
  journal::kafka::cluster::Settings brokers;
  std::string name;
  std::string cluster;
};

/// Where a partition of the topic ends.
struct TopicEnd {
  journal::ChainHead head;
  std::int64_t offset = -1;  // of a message that has the newest record
};

/// Nothing may be on it.
base::Status check_empty(const Topic& topic);
/// Everything on it must be the beginning of `journal`, each record linked to the one before, and end where
/// `journal` has the same.
base::Result<std::vector<TopicEnd>> read_ends(const Topic& topic, const journal::Reader& journal);
/// A topic that is owned must be whole, for those who read what is published, up to exactly these heads.
base::Status check_published(const Topic& topic, const std::string& journal,
                             const std::vector<journal::ChainHead>& heads);
/// Sends all that stands behind these ends; `tell` gets how many records are acknowledged. The error of
/// brokers that take nothing for 30 s.
base::Status publish(const Topic& topic, const journal::Reader& journal, const std::vector<TopicEnd>& from,
                     const std::function<void(std::uint64_t)>& tell);

}  // namespace sandglass::engine::server::migrate
