#include "engine/server/migrate/topic.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/wakeup.h"
#include "engine/codec/record.h"
#include "engine/journal/kafka/publisher/published.h"
#include "engine/journal/kafka/publisher/session.h"
#include "engine/journal/kafka/scan/topic_scan.h"
#include "replay-tools/audit/topic.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace kafka = journal::kafka;
namespace publisher = journal::kafka::publisher;
namespace audit = replay_tools::audit;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr std::int64_t kBrokersWithinMs = 30'000;
constexpr milliseconds kLookEvery{200};

using kafka::scan::Isolation;

base::Result<std::unique_ptr<kafka::scan::TopicScan>> scan(const Topic& topic,
                                                           Isolation isolation = Isolation::everything) {
  return kafka::scan::TopicScan::open(topic.brokers, topic.name, isolation, kBrokersWithinMs);
}

base::Error foreign(const Topic& topic, const std::string& what, bool begun = true) {
  return {base::Code::topic_foreign,
          "Kafka: topic " + topic.name + " of cluster " + topic.cluster + " " + what +
              ". A journal is moved to an empty topic only: " +
              (begun ? "give this move up with `sandglass migrate --back`, then choose another name with "
                       "kafka.topic"
                     : "choose another name with kafka.topic, or delete this one if nobody needs it. Nothing "
                       "was written to it")};
}

/// The scan, which notes where each partition's newest record is.
class Source final : public audit::TopicSource {
 public:
  Source(std::unique_ptr<kafka::scan::TopicScan> scan, std::vector<TopicEnd>& ends)
      : scan_(std::move(scan)), ends_(ends) {
    ends_.resize(scan_->partitions());
  }
  std::uint16_t partitions() const override { return scan_->partitions(); }
  base::Status read(core::PartitionId partition,
                    const std::function<bool(const kafka::Message&)>& take) override {
    TopicEnd& end = ends_.at(partition);
    return scan_->read(partition, [&](const kafka::Message& message) {
      const auto envelope = kafka::decode_envelope(message);
      if (envelope && envelope->sequenced() && envelope->sequence >= end.head.sequence) {
        end.head.sequence = envelope->sequence;
        end.offset = message.offset;
      }
      return take(message);
    });
  }

 private:
  std::unique_ptr<kafka::scan::TopicScan> scan_;
  std::vector<TopicEnd>& ends_;
};

}  // namespace

base::Status check_empty(const Topic& topic) {
  auto opened = scan(topic);
  if (!opened) return std::unexpected(opened.error());
  for (core::PartitionId partition = 0; partition < (*opened)->partitions(); ++partition) {
    std::optional<std::string> found;
    const auto read = (*opened)->read(partition, [&](const kafka::Message& message) {
      found = kafka::journal_of(message);
      return false;
    });
    if (!read) return read;
    if (!found) continue;
    return std::unexpected(foreign(
        topic, found->empty() ? "has messages of others" : "has a history, of journal " + *found, false));
  }
  return {};
}

base::Result<std::vector<TopicEnd>> read_ends(const Topic& topic, const journal::Reader& journal) {
  const auto id = journal.journal_id();
  if (!id) return std::unexpected(id.error());
  auto opened = scan(topic);
  if (!opened) return std::unexpected(opened.error());
  std::vector<TopicEnd> ends;
  Source source(std::move(*opened), ends);
  const auto found = audit::verify_topic(source, *id);
  if (!found) return std::unexpected(found.error());
  if (found->ignored > 0)
    return std::unexpected(foreign(topic, "has other messages: " + found->ignored_examples.front()));
  if (found->marks > 0) return std::unexpected(foreign(topic, "was owned by an engine already"));
  if (found->report.records > 0 && !found->report.good()) {
    return std::unexpected(
        foreign(topic, "does not hold the beginning of this move: " + found->report.findings.front().what));
  }
  for (const audit::Head& head : found->report.heads) {
    TopicEnd& end = ends.at(head.partition);
    end.head = {.sequence = head.sequence, .chain = head.chain};
    if (head.sequence == 0) continue;
    const auto ours = journal.read_order(head.partition, head.sequence, 1);
    if (!ours) return std::unexpected(ours.error());
    if (ours->empty() || ours->front().link.chain != head.chain) {
      return std::unexpected(foreign(topic, "has another record " + std::to_string(head.sequence) +
                                                " in partition " + std::to_string(head.partition)));
    }
  }
  return ends;
}

base::Status check_published(const Topic& topic, const std::string& journal,
                             const std::vector<journal::ChainHead>& heads) {
  auto opened = scan(topic, Isolation::published);
  if (!opened) return std::unexpected(opened.error());
  std::vector<TopicEnd> ends;
  Source source(std::move(*opened), ends);
  const auto found = audit::verify_topic(source, journal);
  if (!found) return std::unexpected(found.error());
  if (!found->report.good()) {
    return base::fail(base::Code::chain_broken,
                      "topic " + topic.name + " is damaged: " + found->report.findings.front().what);
  }
  for (const audit::Head& head : found->report.heads) {
    const journal::ChainHead& wanted = heads.at(head.partition);
    if (head.sequence == wanted.sequence && head.chain == wanted.chain) continue;
    return base::fail(base::Code::chain_broken, "partition " + std::to_string(head.partition) + " of topic " +
                                                    topic.name + " ends at record " +
                                                    std::to_string(head.sequence) + ", and its view at " +
                                                    std::to_string(wanted.sequence));
  }
  return {};
}

base::Status publish(const Topic& topic, const journal::Reader& journal, const std::vector<TopicEnd>& from,
                     const std::function<void(std::uint64_t)>& tell) {
  const auto id = journal.journal_id();
  if (!id) return std::unexpected(id.error());
  publisher::Published published{.journal = *id, .cluster = topic.cluster, .topic = topic.name};
  for (const TopicEnd& end : from)
    published.heads.push_back({.sequence = end.head.sequence, .chain = end.head.chain});
  base::Wakeup news;
  auto session = publisher::Session::begin(topic.brokers, journal, published, news);
  if (!session) return std::unexpected(session.error());
  std::uint64_t before = published.records();
  Steady::time_point heard = Steady::now();
  while (true) {
    if (auto status = (*session)->poll(); !status) return status;
    if (published.records() != before) {
      before = published.records();
      heard = Steady::now();
      tell(before);
      SG_CRASH_POINT("migrate.publishing");
    }
    if ((*session)->caught_up()) return {};
    if (Steady::now() - heard > milliseconds(kBrokersWithinMs)) {
      const auto trouble = (*session)->trouble();
      return std::unexpected(
          trouble ? *trouble
                  : base::Error{base::Code::brokers_unreachable,
                                "Kafka: the brokers have acknowledged nothing for 30 s, and do not say why"});
    }
    news.sleep(kLookEvery);
  }
}

}  // namespace sandglass::engine::server::migrate
