// How the brokers are reached, and a client's configuration made of it.
//
// Thread rule: values. Errors: config_invalid. A secret is never part of a message.
#pragma once

#include <librdkafka/rdkafka.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::engine::journal::kafka::cluster {

/// Frees with librdkafka's function of that type.
template <auto destroy>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using Conf = std::unique_ptr<rd_kafka_conf_t, Freed<rd_kafka_conf_destroy>>;
using Client = std::unique_ptr<rd_kafka_t, Freed<rd_kafka_destroy>>;
using Queue = std::unique_ptr<rd_kafka_queue_t, Freed<rd_kafka_queue_destroy>>;
using Event = std::unique_ptr<rd_kafka_event_t, Freed<rd_kafka_event_destroy>>;
using TopicHandle = std::unique_ptr<rd_kafka_topic_t, Freed<rd_kafka_topic_destroy>>;

struct Settings {
  std::string bootstrap;  // host:port,…
  /// librdkafka's own settings, by name: security.protocol, ssl.*, sasl.*, broker.address.family,
  /// client.rack. What the journal rests on cannot be set.
  std::map<std::string, std::string> client;
};

/// Of a command line: "name=value" each, and a file with more of them, a line each (empty lines and those
/// that begin with # say nothing), where passwords go.
base::Result<Settings> read_settings(std::string bootstrap, const std::vector<std::string>& settings,
                                     const std::string& file);

/// What every client of ours begins with: the settings above, its log lines in ours. The owner of a journal
/// adds what it needs with `set`.
base::Result<Conf> client_conf(const Settings& settings);
base::Status set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// A client of this configuration, which it takes.
base::Result<Client> new_client(rd_kafka_type_t type, Conf conf);

}  // namespace sandglass::engine::journal::kafka::cluster
