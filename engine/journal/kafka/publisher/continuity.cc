#include "engine/journal/kafka/publisher/continuity.h"

#include <optional>
#include <string>
#include <utility>

#include "engine/journal/kafka/scan/topic_scan.h"
#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

constexpr std::int64_t scan_ms = 10'000;
/// Among so many messages at the end there is a record: what else may stand there is an owner's marks, and
/// what somebody has written by mistake.
constexpr std::int64_t last_messages = 64;

/// The newest record that says it is of some journal.
struct Last {
  std::string journal;
  ChainHead head;
};

base::Result<std::optional<Last>> last_record(scan::TopicScan& scan, core::PartitionId partition) {
  std::optional<Last> last;
  const auto read = scan.read_last(partition, last_messages, [&](const Message& message) {
    const auto envelope = decode_envelope(message);
    if (!envelope || !envelope->sequenced()) return true;
    const auto record = decode_record(*envelope, message.value, partition);
    if (!record) return true;
    last = Last{.journal = envelope->journal,
                .head = {.sequence = envelope->sequence, .chain = record->link.chain}};
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return last;
}

base::Result<bool> has(const Reader& reader, core::PartitionId partition, const ChainHead& head) {
  const auto record = reader.read_order(partition, head.sequence, 1);
  if (!record) return std::unexpected(record.error());
  return !record->empty() && record->front().link.sequence == head.sequence &&
         record->front().link.chain == head.chain;
}

base::Error older_copy(core::PartitionId partition, const ChainHead& head) {
  return {base::Code::topic_foreign,
          "partition " + std::to_string(partition) + " was published up to record " +
              std::to_string(head.sequence) +
              ", and this data folder has another record there, or none: it is an older copy. Publish it to "
              "another topic (kafka.topic)"};
}

}  // namespace

base::Status check_heads(const Reader& reader, const Published& published) {
  for (core::PartitionId partition = 0; partition < published.heads.size(); ++partition) {
    const ChainHead& head = published.heads[partition];
    if (head.sequence == 0) continue;
    const auto known = has(reader, partition, head);
    if (!known) return std::unexpected(known.error());
    if (!*known) return std::unexpected(older_copy(partition, head));
  }
  return {};
}

base::Status check_topic_end(const cluster::Settings& brokers, const Reader& reader,
                             const Published& published, std::stop_token stop) {
  auto scan =
      scan::TopicScan::open(brokers, published.topic, scan::Isolation::everything, scan_ms, std::move(stop));
  if (!scan) return std::unexpected(scan.error());
  for (core::PartitionId partition = 0; partition < published.heads.size(); ++partition) {
    const auto last = last_record(**scan, partition);
    if (!last) return std::unexpected(last.error());
    const std::string place = "Kafka: topic " + published.topic + ", partition " + std::to_string(partition);
    if (!*last) {
      const core::Sequence sequence = published.heads[partition].sequence;
      if (sequence == 0) continue;
      return base::fail(base::Code::topic_foreign,
                        place + " has no record, and " + std::to_string(sequence) +
                            " were published to it: the topic was deleted and made again. Remove "
                            "run/published in the data folder to publish all of it again");
    }
    if ((*last)->journal != published.journal) {
      return base::fail(base::Code::topic_foreign,
                        place + " ends with a record of journal " + (*last)->journal + ", and this one is " +
                            published.journal + ". Publish it to another topic (kafka.topic)");
    }
    const auto known = has(reader, partition, (*last)->head);
    if (!known) return std::unexpected(known.error());
    if (!*known) return std::unexpected(older_copy(partition, (*last)->head));
  }
  return {};
}

}  // namespace sandglass::engine::journal::kafka::publisher
