#include "engine/server/compose/publishing.h"

#include <algorithm>
#include <utility>

namespace sandglass::engine::server::compose {

namespace {

/// How many the journal has, of all partitions; none where they cannot be read.
std::uint64_t records_of(const view::View& view, const journal::JournalMeta& meta) {
  std::uint64_t sum = 0;
  for (core::PartitionId partition = 0; partition < meta.partitions; ++partition) {
    if (const auto owned = journal::read_ownership(view, meta, partition)) sum += owned->last_sequence;
  }
  return sum;
}

}  // namespace

base::Result<std::unique_ptr<Publisher>> open_publisher(const base::DataFolder& folder,
                                                        const KafkaSettings& kafka,
                                                        const journal::Reader& reader,
                                                        base::Wakeup& durable) {
  auto brokers = journal::kafka::cluster::read_settings(kafka.bootstrap, kafka.client, kafka.client_file);
  if (!brokers) return std::unexpected(brokers.error());
  // What is wrong with them is known before anybody is asked.
  if (const auto usable = journal::kafka::cluster::client_conf(*brokers); !usable)
    return std::unexpected(usable.error());
  return std::make_unique<Publisher>(
      journal::kafka::publisher::PublisherOptions{
          .brokers = std::move(*brokers), .topic = kafka.topic, .file = folder.file("run/published")},
      reader, durable);
}

bool is_busy(const PublisherStatus& status) {
  return !status.caught_up && !status.trouble;
}

Check publishing_check(const PublisherStatus& status, const KafkaSettings& kafka, const view::View& view,
                       const journal::JournalMeta& meta) {
  // The journal may have grown since the status was taken, and the publisher since the journal was read.
  const std::uint64_t all = std::max(records_of(view, meta), status.published);
  Check check{.name = "publish", .verdict = status.trouble ? "weaker" : "works"};
  check.detail = std::to_string(status.published) + " of " + std::to_string(all) + " records are on topic " +
                 kafka.topic + " of " + kafka.bootstrap;
  if (status.trouble) {
    check.detail += "; error " + std::to_string(static_cast<unsigned>(status.trouble->code)) + ": " +
                    status.trouble->message + ". Runs go on; it is tried again, and nothing is left out";
  }
  return check;
}

}  // namespace sandglass::engine::server::compose
