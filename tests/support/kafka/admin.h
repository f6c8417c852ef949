// What an administrator does to brokers in a test: topics as the test wants them, settings changed
// underneath. Every call waits for the brokers' answer and returns it: empty, or librdkafka's words for the
// error. Thread rule: as a connection; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_op_s;
struct rd_kafka_queue_s;
struct rd_kafka_metadata_partition;

namespace sandglass::tests::support {

/// A topic name that no other test of this program has.
std::string new_topic_name(const std::string& prefix = "history");

class Admin {
 public:
  using Settings = std::map<std::string, std::string>;

  /// `client`: settings of librdkafka, as for TLS and SASL.
  explicit Admin(const std::string& bootstrap, const Settings& client = {});
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  /// Returns when every broker that is up knows who leads each partition, which is a moment after the answer.
  std::string create_topic(const std::string& name, int partitions, int replication,
                           const Settings& settings);
  std::string delete_topic(const std::string& name);
  std::string add_partitions(const std::string& name, int total);
  /// The topic has exactly these settings of its own afterwards.
  std::string set_topic(const std::string& name, const Settings& settings);
  /// The broker has exactly these dynamic settings afterwards; broker "": the default of all brokers.
  std::string set_broker(const std::string& broker, const Settings& settings);
  /// `principal` ("User:name") may do everything with the topic, or with the cluster; where brokers allow
  /// what no rule speaks of, nobody else may do anything with it from then on.
  std::string own_topic(const std::string& name, const std::string& principal);
  std::string own_cluster(const std::string& principal);

  /// The broker id that leads a partition; -1: none does.
  int leader(const std::string& topic, int partition = 0);
  /// The broker ids that a partition is on; none: it is not known.
  std::vector<int> replicas(const std::string& topic, int partition = 0);
  /// The broker id that coordinates the transactions of this id; -1: none does.
  int coordinator(const std::string& transactional_id);

 private:
  using Start = std::function<void(rd_kafka_s*, rd_kafka_queue_s*)>;
  /// Starts the operation and waits for its result event, whose error is returned, or else that of `error`.
  std::string done(const Start& start, const std::function<std::string(rd_kafka_op_s*)>& error);
  std::vector<std::string> live_brokers();
  /// Calls `see` if the partition is there.
  void look(const std::string& topic, int partition,
            const std::function<void(const rd_kafka_metadata_partition&)>& see);
  std::string alter(int resource, const std::string& name, const Settings& settings);
  std::string own(int resource, const std::string& name, const std::string& principal);

  Settings settings_;
  rd_kafka_s* client_ = nullptr;
  rd_kafka_queue_s* queue_ = nullptr;
};

}  // namespace sandglass::tests::support
