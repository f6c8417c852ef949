#include "engine/journal/kafka/client/readings.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "engine/base/log.h"

namespace sandglass::engine::journal::kafka::client {
namespace {

constexpr std::size_t kMessagesAtOnce = 1000;
/// Of all partitions together. librdkafka reads ahead up to the lesser of both, and having reached it looks
/// again only after a second: they are what the fastest reader takes in that time.
constexpr std::size_t kAheadKbytes = 96 << 10;
constexpr std::size_t kAheadMessages = 400'000;

std::string_view bytes_of(const void* bytes, std::size_t size) {
  return {static_cast<const char*>(bytes), size};
}

}  // namespace

base::Result<std::unique_ptr<Consumer>> Consumer::open(const ClientOptions& options, Reading reading) {
  auto conf = cluster::client_conf(options.settings);
  if (!conf) return std::unexpected(conf.error());
  const auto share = [&](std::size_t of_all) { return std::to_string(of_all / options.partitions + 1); };
  const std::pair<const char*, std::string> settings[] = {
      {"isolation.level", reading == Reading::published ? "read_committed" : "read_uncommitted"},
      {"auto.offset.reset", "error"},
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"enable.partition.eof", "false"},
      {"allow.auto.create.topics", "false"},
      {"fetch.wait.max.ms", "100"},
      {"fetch.error.backoff.ms", "50"},
      {"queued.max.messages.kbytes", share(kAheadKbytes)},
      {"queued.min.messages", share(kAheadMessages)},
      {"fetch.message.max.bytes", "4194304"},
      {"reconnect.backoff.ms", "20"},
      {"reconnect.backoff.max.ms", "1000"},
      {"topic.metadata.refresh.fast.interval.ms", "50"},
  };
  for (const auto& [name, value] : settings) {
    if (auto status = cluster::set(conf->get(), name, value); !status) return std::unexpected(status.error());
  }
  std::unique_ptr<Consumer> consumer(new Consumer(reading));
  auto client = cluster::new_client(RD_KAFKA_CONSUMER, std::move(*conf));
  if (!client) return std::unexpected(client.error());
  consumer->client_ = std::move(*client);
  consumer->topic_.reset(rd_kafka_topic_new(consumer->client(), options.topic.c_str(), nullptr));
  if (!consumer->topic_)
    return base::fail(base::Code::config_invalid, "the topic name " + options.topic + " is not acceptable");
  return consumer;
}

PartitionReading::PartitionReading(Consumer& consumer, core::PartitionId partition, std::int64_t from,
                                   std::uint64_t token, int wake_fd)
    : consumer_(consumer),
      partition_(partition),
      token_(token),
      wake_fd_(wake_fd),
      queue_(rd_kafka_queue_new(consumer.client())) {
  const std::uint64_t one = 1;
  rd_kafka_queue_io_event_enable(queue_.get(), wake_fd, &one, sizeof one);
  if (rd_kafka_consume_start_queue(consumer.topic(), partition,
                                   from == Broker::kLogStart ? RD_KAFKA_OFFSET_BEGINNING : from,
                                   queue_.get()) != 0) {
    refused_ = rd_kafka_err2str(rd_kafka_last_error());
    static_cast<void>(::write(wake_fd, &one, sizeof one));
  }
}

PartitionReading::~PartitionReading() {
  rd_kafka_queue_io_event_enable(queue_.get(), -1, nullptr, 0);
  rd_kafka_consume_stop(consumer_.topic(), partition_);
}

void PartitionReading::poll(std::vector<BrokerEvent>& events) {
  if (!refused_.empty()) {
    events.push_back({.what = BrokerEvent::What::failed, .why = std::exchange(refused_, {})});
    return;
  }
  rd_kafka_poll(consumer_.client(), 0);
  std::array<rd_kafka_message_t*, kMessagesAtOnce> messages{};
  const ssize_t count = rd_kafka_consume_batch_queue(queue_.get(), 0, messages.data(), messages.size());
  for (ssize_t i = 0; i < count; ++i) {
    take(*messages[static_cast<std::size_t>(i)], events);
    rd_kafka_message_destroy(messages[static_cast<std::size_t>(i)]);
  }
  if (count > 0) {  // the queue tells only that it is no longer empty
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_fd_, &one, sizeof one));
  }
}

ReadMessage PartitionReading::read(const rd_kafka_message_t& message) {
  headers_.clear();
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; ++i)
      headers_.push_back({name, bytes_of(value, size)});
  }
  return read_message({.offset = message.offset,
                       .key = bytes_of(message.key, message.key_len),
                       .value = bytes_of(message.payload, message.len),
                       .headers = headers_});
}

void PartitionReading::take(const rd_kafka_message_t& message, std::vector<BrokerEvent>& events) {
  const std::string text = message.err == 0 ? "" : rd_kafka_message_errstr(&message);
  switch (message.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      events.push_back({.what = BrokerEvent::What::message,
                        .token = token_,
                        .reading = consumer_.reading(),
                        .message = read(message)});
      return;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      events.push_back({.what = BrokerEvent::What::not_there,
                        .token = token_,
                        .reading = consumer_.reading(),
                        .why = text});
      return;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      events.push_back({.what = BrokerEvent::What::failed, .why = text});
      return;
    default:  // librdkafka tries again
      base::log(base::LogLevel::info, "kafka_reading_waits", {{"partition", partition_}, {"reason", text}});
  }
}

}  // namespace sandglass::engine::journal::kafka::client
