#include "engine/journal/kafka/publisher/session.h"

#include "engine/base/check.h"
#include "engine/codec/record.h"
#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

constexpr std::size_t read_at_once = 64;
/// What may be under way: so much is sent again after an error, at most.
constexpr std::size_t most_in_flight = 8'192;
constexpr std::size_t most_bytes_in_flight = 16 << 20;

/// `self`: where reports go. What cannot be delivered now is tried until it can be: giving up on one record
/// would leave it out, in front of others.
base::Result<cluster::Conf> producer_conf(const cluster::Settings& brokers) {
  auto conf = cluster::client_conf(brokers);
  if (!conf) return conf;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"enable.idempotence", "true"},
           {"acks", "all"},
           {"message.timeout.ms", "0"},
           {"linger.ms", "5"},
           {"queue.buffering.max.messages", "100000"}}) {
    if (auto status = cluster::set(conf->get(), name, value); !status) return std::unexpected(status.error());
  }
  return conf;
}

}  // namespace

base::Result<std::unique_ptr<Session>> Session::begin(const cluster::Settings& brokers, const Reader& reader,
                                                      Published& published, base::Wakeup& wakeup) {
  std::unique_ptr<Session> session(new Session(reader, published));
  for (const ChainHead& head : published.heads) session->partitions_.push_back({.next_to = head});
  auto conf = producer_conf(brokers);
  if (!conf) return std::unexpected(conf.error());
  session->trouble_.attach(conf->get());
  rd_kafka_conf_set_dr_msg_cb(conf->get(), [](rd_kafka_t*, const rd_kafka_message_t* message, void*) {
    static_cast<Session*>(message->_private)->report(*message);
  });
  auto client = cluster::new_client(RD_KAFKA_PRODUCER, std::move(*conf));
  if (!client) return std::unexpected(client.error());
  session->client_ = std::move(*client);
  session->events_.reset(rd_kafka_queue_get_main(session->client_.get()));
  rd_kafka_queue_cb_event_enable(
      session->events_.get(), [](rd_kafka_t*, void* waker) { static_cast<base::Wakeup*>(waker)->signal(); },
      &wakeup);
  return session;
}

Session::~Session() {
  if (client_ == nullptr) return;
  rd_kafka_queue_cb_event_enable(events_.get(), nullptr, nullptr);
  events_.reset();
  rd_kafka_purge(client_.get(),
                 RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

base::Status Session::poll() {
  while (rd_kafka_poll(client_.get(), 0) > 0) {
  }
  if (failed_) return std::unexpected(*failed_);
  char words[512];
  if (const auto fatal = rd_kafka_fatal_error(client_.get(), words, sizeof words);
      fatal != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::unexpected(cluster::error_of(fatal, "publish", words));
  }
  more_ = false;
  bool room = true;
  for (bool sent = true; sent && room;) {
    sent = false;
    for (core::PartitionId partition = 0; partition < partitions_.size() && room; ++partition) {
      room = in_flight_ < most_in_flight && in_flight_bytes_ < most_bytes_in_flight;
      if (!room) break;
      const auto some = send_some(partition);
      if (!some) return std::unexpected(some.error());
      sent = *some || sent;
    }
  }
  more_ = !room;
  return {};
}

/// True: there may be more.
base::Result<bool> Session::send_some(core::PartitionId partition) {
  Partition& state = partitions_[partition];
  const auto records = reader_.read_order(partition, state.next_to.sequence + 1, read_at_once);
  if (!records) return std::unexpected(records.error());
  for (const core::OrderedRecord& record : *records) {
    if (record.link.sequence != state.next_to.sequence + 1) {
      return base::fail(base::Code::chain_broken, "the journal has no record " +
                                                      std::to_string(state.next_to.sequence + 1) +
                                                      " in partition " + std::to_string(partition) +
                                                      "; nothing behind it is published");
    }
    const auto taken = send(partition, record);
    if (!taken || !*taken) return taken;
  }
  return records->size() == read_at_once;
}

/// False: the producer's queue is full.
base::Result<bool> Session::send(core::PartitionId partition, const core::OrderedRecord& record) {
  Partition& state = partitions_[partition];
  const base::Hash256 previous =
      state.next_to.sequence == 0 ? codec::genesis_chain(published_.journal, partition) : state.next_to.chain;
  Message message = encode_record(published_.journal, Kind::record, record.link, previous,
                                  codec::encode_record(record.record));
  rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size());
  for (const Header& header : message.headers) {
    rd_kafka_header_add(headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
                        header.value.data(), static_cast<ssize_t>(header.value.size()));
  }
  const std::size_t bytes = message.key.size() + message.value.size();
  const auto error = rd_kafka_producev(
      client_.get(), RD_KAFKA_V_TOPIC(published_.topic.c_str()), RD_KAFKA_V_PARTITION(partition),
      RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(message.key.data(), message.key.size()),
      RD_KAFKA_V_VALUE(message.value.data(), message.value.size()), RD_KAFKA_V_HEADERS(headers),
      RD_KAFKA_V_OPAQUE(this), RD_KAFKA_V_END);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    rd_kafka_headers_destroy(headers);  // still ours
    if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) return false;
    return std::unexpected(cluster::error_of(error, "publish"));
  }
  state.next_to = {.sequence = record.link.sequence, .chain = record.link.chain};
  state.sent.push_back({.head = state.next_to, .bytes = bytes});
  ++in_flight_;
  in_flight_bytes_ += bytes;
  return true;
}

/// Of one partition, reports come in the order in which it was sent to.
void Session::report(const rd_kafka_message_t& message) {
  if (failed_) return;
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    failed_ = trouble_.explain(message.err, "publish");
    return;
  }
  const auto partition = static_cast<std::size_t>(message.partition);
  Partition& state = partitions_.at(partition);
  SG_CHECK(!state.sent.empty(), "a report of a record that was not sent");
  published_.heads[partition] = state.sent.front().head;
  in_flight_bytes_ -= state.sent.front().bytes;
  --in_flight_;
  trouble_.clear();
  state.sent.pop_front();
}

std::optional<base::Error> Session::trouble() const {
  if (in_flight_ == 0) return std::nullopt;
  return trouble_.last("publish");
}

}  // namespace sandglass::engine::journal::kafka::publisher
