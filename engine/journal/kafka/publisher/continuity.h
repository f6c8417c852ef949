// Whether what would be published goes on with what readers have, asked before each session. Else two
// histories would stand on one topic, and readers that believe the first would stop at the second.
//
// Blocking, for as long as the brokers take. Thread rule: functions of their arguments; `reader` bears reads
// from the caller's thread. Errors: topic_foreign, which says whose history is there and what to do; those of
// reader and scan.
#pragma once

#include <stop_token>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/publisher/published.h"
#include "engine/journal/reader.h"

namespace sandglass::engine::journal::kafka::publisher {

/// What the file says was published must be what the journal has there: a folder that was restored from an
/// older copy may lack it.
base::Status check_heads(const Reader& reader, const Published& published);

/// The topic's last record of each partition must be this journal's: not another's, not one that this folder
/// does not have (it is an older copy, file and all), and not none where some were published (the topic was
/// deleted and made again).
base::Status check_topic_end(const cluster::Settings& brokers, const Reader& reader,
                             const Published& published, std::stop_token stop);

}  // namespace sandglass::engine::journal::kafka::publisher
