// `publish: kafka`: the embedded journal's records go to a topic as well, behind the runs' back (M6).
//
// Thread rule: open from one thread, before the journal has anything to complete; the rest from any. Errors
// of open: config_invalid, for settings of the client that cannot be read. Everything else that can stand in
// the way is met later, and is the check's to tell: no run waits for it.
#pragma once

#include <memory>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/base/wakeup.h"
#include "engine/journal/kafka/publisher/publisher.h"
#include "engine/journal/reader.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/config.h"
#include "engine/server/separation.h"
#include "engine/view/view.h"

namespace sandglass::engine::server::compose {

using journal::kafka::publisher::Publisher;
using journal::kafka::publisher::PublisherStatus;

/// `durable` is signalled when the journal has more. Both outlive it.
base::Result<std::unique_ptr<Publisher>> open_publisher(const base::DataFolder& folder,
                                                        const KafkaSettings& kafka,
                                                        const journal::Reader& reader, base::Wakeup& durable);

/// Something is on its way to brokers that take it: a moment later more is published.
bool is_busy(const PublisherStatus& status);

/// A line of `doctor`: how much is published, and what is in the way.
Check publishing_check(const PublisherStatus& status, const KafkaSettings& kafka, const view::View& view,
                       const journal::JournalMeta& meta);

}  // namespace sandglass::engine::server::compose
