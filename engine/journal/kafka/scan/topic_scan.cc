#include "engine/journal/kafka/scan/topic_scan.h"

#include <chrono>
#include <utility>

#include "engine/journal/kafka/cluster/inquiry.h"

namespace sandglass::engine::journal::kafka::scan {

namespace {

using Steady = std::chrono::steady_clock;
using Place =
    std::unique_ptr<rd_kafka_topic_partition_list_t, cluster::Freed<rd_kafka_topic_partition_list_destroy>>;
using Received = std::unique_ptr<rd_kafka_message_t, cluster::Freed<rd_kafka_message_destroy>>;

constexpr int poll_ms = 500;

std::string text(const void* bytes, std::size_t size) {
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

Message message_of(const rd_kafka_message_t& received) {
  Message message{.offset = received.offset,
                  .key = text(received.key, received.key_len),
                  .value = text(received.payload, received.len)};
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&received, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return message;  // has none
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t at = 0;
       rd_kafka_header_get_all(headers, at, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++at) {
    message.headers.push_back({.name = name, .value = text(value, size)});
  }
  return message;
}

Place place_of(const std::string& topic, core::PartitionId partition, std::int64_t offset) {
  Place place(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(place.get(), topic.c_str(), partition)->offset = offset;
  return place;
}

}  // namespace

base::Result<std::unique_ptr<TopicScan>> TopicScan::open(const cluster::Settings& brokers,
                                                         const std::string& topic, Isolation isolation,
                                                         std::int64_t timeout_ms, std::stop_token stop) {
  std::unique_ptr<TopicScan> scan(new TopicScan);
  scan->topic_ = topic;
  scan->timeout_ms_ = timeout_ms;
  scan->stop_ = stop;
  auto inquiry = cluster::Inquiry::begin(brokers, timeout_ms, stop);
  if (!inquiry) return std::unexpected(inquiry.error());
  auto layout = (*inquiry)->layout(topic, false);
  if (!layout) return std::unexpected(layout.error());
  if (!layout->exists) {
    return base::fail(base::Code::topic_missing,
                      "Kafka: topic " + topic + " does not exist on cluster " + layout->cluster);
  }
  scan->partitions_ = static_cast<std::uint16_t>(layout->replicas.size());
  scan->cluster_ = layout->cluster;
  auto conf = cluster::client_conf(brokers);
  if (!conf) return std::unexpected(conf.error());
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"group.id", "sandglass-scan"},  // must be there; nothing is committed or joined
           {"enable.auto.commit", "false"},
           {"auto.offset.reset", "error"},
           {"enable.partition.eof", "true"},
           {"check.crcs", "true"},
           {"fetch.wait.max.ms", "20"},  // at the end: so long a broker waits for more, and we for its end
           {"isolation.level", isolation == Isolation::published ? "read_committed" : "read_uncommitted"}}) {
    if (auto status = cluster::set(conf->get(), name, value); !status) return std::unexpected(status.error());
  }
  scan->trouble_.attach(conf->get());
  auto client = cluster::new_client(RD_KAFKA_CONSUMER, std::move(*conf));
  if (!client) return std::unexpected(client.error());
  scan->client_ = std::move(*client);
  rd_kafka_poll_set_consumer(scan->client_.get());
  return scan;
}

base::Status TopicScan::read(core::PartitionId partition, const std::function<bool(const Message&)>& take) {
  return read_from(partition, RD_KAFKA_OFFSET_BEGINNING, take);
}

base::Status TopicScan::read_last(core::PartitionId partition, std::int64_t messages,
                                  const std::function<bool(const Message&)>& take) {
  return read_from(partition, RD_KAFKA_OFFSET_TAIL(messages), take);
}

base::Status TopicScan::read_from(core::PartitionId partition, std::int64_t offset,
                                  const std::function<bool(const Message&)>& take) {
  const std::string doing = "read topic " + topic_ + ", partition " + std::to_string(partition);
  const Place place = place_of(topic_, partition, offset);
  if (const auto error = rd_kafka_assign(client_.get(), place.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::unexpected(cluster::error_of(error, doing));
  }
  const auto patience = std::chrono::milliseconds(timeout_ms_);
  for (auto heard = Steady::now();;) {
    const Received received(rd_kafka_consumer_poll(client_.get(), poll_ms));
    if (received == nullptr) {
      if (!trouble_.refused() && !stop_.stop_requested() && Steady::now() - heard < patience) continue;
      return std::unexpected(trouble_.explain(RD_KAFKA_RESP_ERR__TIMED_OUT, doing));
    }
    heard = Steady::now();
    if (received->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) break;
    if (received->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return std::unexpected(
          cluster::error_of(received->err, doing, rd_kafka_message_errstr(received.get())));
    }
    if (received->partition != partition) continue;  // of the one before
    if (!take(message_of(*received))) break;
  }
  rd_kafka_assign(client_.get(), nullptr);
  return {};
}

}  // namespace sandglass::engine::journal::kafka::scan
