// Who serves: of several engines on one topic the one that has the lease (J27). The others stand by: they
// apply what it writes, so that their views are warm, and take over when its lease ends.
//
// Thread rule: one thread. Errors: cancelled, when the process shall end; those of lease and journal;
// topic_foreign, when the one that serves has another tenant key, or keeps its blobs where this engine cannot
// reach them (J29).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/journal/kafka/client/lease.h"
#include "engine/journal/kafka/journal.h"
#include "engine/server/config.h"

namespace sandglass::engine::server::compose {

using journal::kafka::client::Lease;

/// What happens while an engine stands by, and afterwards.
struct StandbyPorts {
  /// It stands by, and for whom; again when that changes.
  std::function<void(const std::string& served_by)> standing_by;
  /// It was told to take over, and from whom; may be empty.
  std::function<void(const std::string& served_by)> taking_over;
  /// Asked several times a second: the process shall end.
  std::function<bool()> ends;
  /// An operator has told this engine to take over: true once for each time. Asked as often.
  std::function<bool()> told_to_take_over;
  /// The lease has been lost; comes from a thread of its own, once.
  std::function<void(const base::Error&)> lost;
};

/// This engine, as the others shall see it.
base::Result<journal::kafka::client::LeaseHolder> lease_name(const base::DataFolder& folder,
                                                             const std::string& tenant_key,
                                                             base::Random& random);

/// Until this engine may own every partition. True: it stood by.
base::Result<bool> wait_for_lease(Lease& lease, journal::kafka::KafkaJournal& journal,
                                  const journal::kafka::client::LeaseHolder& self, const KafkaSettings& kafka,
                                  const StandbyPorts& ports);

}  // namespace sandglass::engine::server::compose
