#include "engine/journal/kafka/client/producer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace sandglass::engine::journal::kafka::client {
namespace {

/// A call that blocks is cut into pieces of this, so that it can be given up; librdkafka goes on with the
/// same operation.
constexpr int kPieceMs = 500;
/// So soon it is seen that the brokers are still ending the former owner's transaction.
constexpr int kInitPieceMs = 10;
/// librdkafka's thread would send the first message of many as soon as it sees it, keep back the others of
/// the partition until it is acknowledged, and ask itself meanwhile without a pause whether they may go. So
/// messages linger, until a flush, during which none does. It is in force until that thread has had the time
/// to look; if that was not enough, they go when they have lingered.
constexpr const char* kLingerMs = "5";
constexpr int kSendMs = 2;

struct ErrorDeleter {
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
};
using Failed = std::unique_ptr<rd_kafka_error_t, ErrorDeleter>;

bool says_fenced(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR__FENCED || error == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         error == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

/// What ended the producer is its fatal error, whatever a single message says of it.
rd_kafka_resp_err_t origin(rd_kafka_t* client, rd_kafka_resp_err_t error, std::string& why) {
  char text[512];
  const rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(client, text, sizeof text);
  if (fatal == RD_KAFKA_RESP_ERR_NO_ERROR) {
    why = rd_kafka_err2str(error);
    return error;
  }
  why = text;
  return fatal;
}

/// From here on the client registers no partition with a transaction, and is not about to. It does so on a
/// thread of its own, a moment after the first message of a transaction; destroyed in that moment, librdkafka
/// 2.0.2 answers the request before it has counted it, which ends the program (rdkafka_txnmgr.c:1007). That
/// thread takes the two calls in order: in a transaction that is being aborted nothing is registered. Neither
/// waits for a broker, and the abort goes no further: nobody is told of it.
void register_no_more(rd_kafka_t* client) {
  const Failed aborted(rd_kafka_abort_transaction(client, 0));
  const Failed begun(rd_kafka_begin_transaction(client));
}

}  // namespace

base::Result<std::unique_ptr<Producer>> Producer::open(const ClientOptions& options,
                                                       core::PartitionId partition, int wake_fd) {
  std::unique_ptr<Producer> producer(new Producer(options, partition, wake_fd));
  auto handles = producer->make();
  if (!handles) return std::unexpected(handles.error());
  producer->handles_ = std::move(*handles);
  producer->caller_ = std::thread([producer = producer.get()] { producer->work(); });
  return producer;
}

base::Result<Producer::Handles> Producer::make() const {
  auto conf = cluster::client_conf(options_.settings);
  if (!conf) return std::unexpected(conf.error());
  const std::pair<const char*, std::string> settings[] = {
      {"transactional.id", options_.journal_id + "-" + std::to_string(partition_)},
      {"transaction.timeout.ms", std::to_string(options_.transaction_timeout_ms)},
      {"message.timeout.ms", std::to_string(options_.delivery_timeout_ms)},
      {"linger.ms", kLingerMs},
      {"retry.backoff.ms", "20"},
      {"reconnect.backoff.ms", "20"},
      {"reconnect.backoff.max.ms", "1000"},
      {"topic.metadata.refresh.fast.interval.ms", "50"},
  };
  for (const auto& [name, value] : settings) {
    if (auto status = cluster::set(conf->get(), name, value); !status) return std::unexpected(status.error());
  }
  rd_kafka_conf_set_events(conf->get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
  auto client = cluster::new_client(RD_KAFKA_PRODUCER, std::move(*conf));
  if (!client) return std::unexpected(client.error());
  Handles handles{.client = std::move(*client)};
  handles.topic.reset(rd_kafka_topic_new(handles.client.get(), options_.topic.c_str(), nullptr));
  if (!handles.topic)
    return base::fail(base::Code::config_invalid, "the topic name " + options_.topic + " is not acceptable");
  handles.queue.reset(rd_kafka_queue_get_main(handles.client.get()));
  const std::uint64_t one = 1;
  rd_kafka_queue_io_event_enable(handles.queue.get(), wake_fd_, &one, sizeof one);
  return handles;
}

Producer::~Producer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  if (caller_.joinable()) caller_.join();
  if (!handles_.client) return;
  rd_kafka_queue_io_event_enable(handles_.queue.get(), -1, nullptr, 0);
  register_no_more(handles_.client.get());
  rd_kafka_purge(handles_.client.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

// ---- calls that block

void Producer::call(Call wanted) {
  {
    const std::lock_guard lock(mutex_);
    if (wanted != Call::send || !call_) call_ = wanted;  // the others send, too
  }
  wanted_.notify_one();
}

void Producer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] { return stopping_ || call_; });
    if (stopping_) return;
    const Call wanted = *std::exchange(call_, std::nullopt);
    lock.unlock();
    if (wanted == Call::send) {
      rd_kafka_flush(handles_.client.get(), kSendMs);  // what is delivered meanwhile, poll() takes
      lock.lock();
      continue;
    }
    auto answer = carry_out(wanted);
    lock.lock();
    if (!answer) return;  // given up
    answers_.push_back(std::move(*answer));
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_fd_, &one, sizeof one));
  }
}

/// The brokers are ending the former owner's transaction, a matter of milliseconds; librdkafka would ask
/// again after half a second. A client that is new asks at once.
base::Status Producer::make_anew() {
  {
    std::unique_lock lock(mutex_);
    wanted_.wait_for(lock, std::chrono::milliseconds(pause_ms_), [&] { return stopping_; });
  }
  pause_ms_ = std::min(2 * pause_ms_ + kInitPieceMs, kPieceMs);
  {
    const Handles old = std::move(handles_);
  }  // asking once more, it would fence the new one
  auto made = make();
  if (!made) return std::unexpected(made.error());
  handles_ = std::move(*made);
  return {};
}

bool Producer::stops() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

std::optional<BrokerEvent> Producer::carry_out(Call wanted) {
  const bool init = wanted == Call::init;
  while (true) {
    const Failed failed(init ? rd_kafka_init_transactions(handles_.client.get(), kInitPieceMs)
                             : rd_kafka_commit_transaction(handles_.client.get(), kPieceMs));
    if (!failed) {
      return BrokerEvent{.what = init ? BrokerEvent::What::initialised : BrokerEvent::What::committed};
    }
    if (stops()) return std::nullopt;
    if (init && rd_kafka_error_code(failed.get()) == RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS) {
      if (auto made = make_anew(); !made)
        return BrokerEvent{.what = BrokerEvent::What::failed, .why = made.error().message};
      continue;
    }
    if (rd_kafka_error_is_retriable(failed.get()) && !rd_kafka_error_is_fatal(failed.get()) &&
        !rd_kafka_error_txn_requires_abort(failed.get())) {
      continue;
    }
    std::string why;
    const auto error = origin(handles_.client.get(), rd_kafka_error_code(failed.get()), why);
    return BrokerEvent{.what = says_fenced(error) ? BrokerEvent::What::fenced : BrokerEvent::What::failed,
                       .why = std::string(init ? "init_transactions: " : "commit_transaction: ") + why +
                              " (" + rd_kafka_error_string(failed.get()) + ")"};
  }
}

// ---- producing

void Producer::fail(rd_kafka_resp_err_t error, const std::string& doing) {
  if (failure_) return;
  std::string why;
  const auto cause = origin(handles_.client.get(), error, why);
  failure_ = BrokerEvent{.what = says_fenced(cause) ? BrokerEvent::What::fenced : BrokerEvent::What::failed,
                         .why = doing + ": " + why};
}

bool Producer::begin() {
  const Failed failed(rd_kafka_begin_transaction(handles_.client.get()));
  if (!failed) return true;
  fail(rd_kafka_error_code(failed.get()), "begin_transaction");
  return false;
}

Taken Producer::produce(const Message& message, std::uint64_t token) {
  rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size());
  for (const Header& header : message.headers) {
    rd_kafka_header_add(headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
                        header.value.data(), static_cast<ssize_t>(header.value.size()));
  }
  const auto bytes = [](const std::string& text) {
    return text.empty() ? nullptr : const_cast<char*>(text.data());
  };
  const rd_kafka_vu_t parts[] = {
      {.vtype = RD_KAFKA_VTYPE_RKT, .u = {.rkt = handles_.topic.get()}},
      {.vtype = RD_KAFKA_VTYPE_PARTITION, .u = {.i32 = partition_}},
      {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u = {.i = RD_KAFKA_MSG_F_COPY}},
      {.vtype = RD_KAFKA_VTYPE_KEY, .u = {.mem = {bytes(message.key), message.key.size()}}},
      {.vtype = RD_KAFKA_VTYPE_VALUE, .u = {.mem = {bytes(message.value), message.value.size()}}},
      {.vtype = RD_KAFKA_VTYPE_HEADERS, .u = {.headers = headers}},
      {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u = {.ptr = reinterpret_cast<void*>(token)}}};
  const Failed failed(rd_kafka_produceva(handles_.client.get(), parts, std::size(parts)));
  if (!failed) {
    unsent_ = true;
    return Taken::yes;  // the headers are librdkafka's now
  }
  rd_kafka_headers_destroy(headers);
  const rd_kafka_resp_err_t error = rd_kafka_error_code(failed.get());
  if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) return Taken::full;
  fail(error, "produce");
  return Taken::refused;
}

void Producer::send() {
  if (std::exchange(unsent_, false)) call(Call::send);
}

void Producer::take_reports(rd_kafka_event_t* event, std::vector<BrokerEvent>& events) {
  while (const rd_kafka_message_t* report = rd_kafka_event_message_next(event)) {
    if (failure_) return;  // what comes now is not to be relied on
    if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      fail(report->err, "a message was not delivered");
      return;
    }
    events.push_back({.what = BrokerEvent::What::delivered,
                      .token = reinterpret_cast<std::uint64_t>(report->_private),
                      .offset = report->offset});
  }
}

void Producer::poll(std::vector<BrokerEvent>& events) {
  while (const cluster::Event event{initialised_ ? rd_kafka_queue_poll(handles_.queue.get(), 0) : nullptr}) {
    if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_DR) {
      take_reports(event.get(), events);
    } else if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_ERROR) {
      const auto error = rd_kafka_event_error(event.get());
      // Anything but a fatal one is told for information: brokers that come and go.
      if (error == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_fatal_error(handles_.client.get(), nullptr, 0) != 0)
        fail(error, "the producer has ended");
    }
  }
  {
    const std::lock_guard lock(mutex_);
    for (BrokerEvent& answer : answers_) {
      initialised_ |= answer.what == BrokerEvent::What::initialised;
      events.push_back(std::move(answer));
    }
    answers_.clear();
  }
  if (failure_ && !std::exchange(failure_told_, true)) events.push_back(*failure_);
}

}  // namespace sandglass::engine::journal::kafka::client
