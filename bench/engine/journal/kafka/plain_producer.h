// The yardstick: librdkafka's idempotent producer as anybody would use it, without transactions and without a
// view. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "engine/base/check.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka {

class PlainProducer {
 public:
  PlainProducer(const std::string& bootstrap, const std::string& topic) {
    auto conf = *cluster::client_conf({.bootstrap = bootstrap});
    for (const auto& [name, value] : {std::pair("enable.idempotence", "true"), std::pair("linger.ms", "0")})
      SG_CHECK(cluster::set(conf.get(), name, value), name);
    rd_kafka_conf_set_dr_msg_cb(conf.get(), [](rd_kafka_t*, const rd_kafka_message_t* report, void*) {
      SG_CHECK(report->err == 0, rd_kafka_err2str(report->err));
      ++*static_cast<std::uint64_t*>(report->_private);
    });
    client_ = *cluster::new_client(RD_KAFKA_PRODUCER, std::move(conf));
    topic_.reset(rd_kafka_topic_new(client_.get(), topic.c_str(), nullptr));
  }

  void produce(const Message& message, core::PartitionId partition = 0) {
    rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size());
    for (const Header& header : message.headers) {
      rd_kafka_header_add(headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
                          header.value.data(), static_cast<ssize_t>(header.value.size()));
    }
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u = {.rkt = topic_.get()}},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u = {.i32 = partition}},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u = {.i = RD_KAFKA_MSG_F_COPY}},
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u = {.mem = {const_cast<char*>(message.key.data()), message.key.size()}}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u = {.mem = {const_cast<char*>(message.value.data()), message.value.size()}}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u = {.headers = headers}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u = {.ptr = &delivered_}}};
    SG_CHECK(rd_kafka_produceva(client_.get(), parts, std::size(parts)) == nullptr, "produce");
    ++produced_;
  }
  /// Waits until no more than `most` are undelivered.
  void drain(std::uint64_t most) {
    while (produced_ - delivered_ > most) rd_kafka_poll(client_.get(), 10);
  }

 private:
  cluster::Client client_;
  cluster::TopicHandle topic_;
  std::uint64_t produced_ = 0;
  std::uint64_t delivered_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
