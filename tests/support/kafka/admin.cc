#include "tests/support/kafka/admin.h"

#include <librdkafka/rdkafka.h>

#include <chrono>

#include "engine/base/check.h"

namespace sandglass::tests::support {

namespace {

constexpr int wait_ms = 60'000;
constexpr std::size_t transaction_partitions = 8;  // scripts/lib/kafka.sh

/// The error of the first topic in a result of one.
std::string topic_error(const rd_kafka_topic_result_t** topics, std::size_t count) {
  SG_CHECK(count == 1, "a result of one topic");
  if (rd_kafka_topic_result_error(topics[0]) == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  const char* words = rd_kafka_topic_result_error_string(topics[0]);
  return words != nullptr ? words : rd_kafka_err2str(rd_kafka_topic_result_error(topics[0]));
}

/// As Java hashes a string: so brokers choose the partition of a transaction's state.
std::size_t java_hash(const std::string& text) {
  std::uint32_t hash = 0;
  for (const char each : text) hash = 31 * hash + static_cast<unsigned char>(each);
  return hash & 0x7FFFFFFFU;
}

}  // namespace

std::string new_topic_name(const std::string& prefix) {
  static int counter = 0;
  return prefix + "-" + std::to_string(++counter);
}

Admin::Admin(const std::string& bootstrap, const Settings& client) : settings_(client) {
  char problem[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  Settings all = client;
  all["bootstrap.servers"] = bootstrap;
  for (const auto& [name, value] : all) {
    SG_CHECK(
        rd_kafka_conf_set(conf, name.c_str(), value.c_str(), problem, sizeof problem) == RD_KAFKA_CONF_OK,
        problem);
  }
  client_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf, problem, sizeof problem);
  SG_CHECK(client_ != nullptr, problem);
  queue_ = rd_kafka_queue_new(client_);
}

Admin::~Admin() {
  rd_kafka_queue_destroy(queue_);
  rd_kafka_destroy(client_);
}

std::string Admin::done(const Start& start, const std::function<std::string(rd_kafka_event_t*)>& error) {
  start(client_, queue_);
  const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
      rd_kafka_queue_poll(queue_, wait_ms), rd_kafka_event_destroy);
  if (event == nullptr) return "no answer";
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return rd_kafka_event_error_string(event.get());
  }
  return error(event.get());
}

std::string Admin::create_topic(const std::string& name, int partitions, int replication,
                                const Settings& settings) {
  char problem[512];
  const std::unique_ptr<rd_kafka_NewTopic_t, decltype(&rd_kafka_NewTopic_destroy)> topic(
      rd_kafka_NewTopic_new(name.c_str(), partitions, replication, problem, sizeof problem),
      rd_kafka_NewTopic_destroy);
  if (topic == nullptr) return problem;
  for (const auto& [key, value] : settings)
    rd_kafka_NewTopic_set_config(topic.get(), key.c_str(), value.c_str());
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  const std::string error =
      done([&](rd_kafka_t* client,
               rd_kafka_queue_t* queue) { rd_kafka_CreateTopics(client, topics, 1, nullptr, queue); },
           [](rd_kafka_event_t* event) {
             std::size_t count = 0;
             const auto** results =
                 rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
             return topic_error(results, count);
           });
  if (!error.empty()) return error;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  for (const std::string& address : live_brokers()) {
    Admin broker(address, settings_);
    for (int partition = 0; partition < partitions;) {
      if (broker.leader(name, partition) >= 0)
        ++partition;
      else if (std::chrono::steady_clock::now() > until)
        return "broker " + address + " does not know topic " + name;
    }
  }
  return {};
}

std::string Admin::delete_topic(const std::string& name) {
  const std::unique_ptr<rd_kafka_DeleteTopic_t, decltype(&rd_kafka_DeleteTopic_destroy)> topic(
      rd_kafka_DeleteTopic_new(name.c_str()), rd_kafka_DeleteTopic_destroy);
  rd_kafka_DeleteTopic_t* topics[] = {topic.get()};
  return done([&](rd_kafka_t* client,
                  rd_kafka_queue_t* queue) { rd_kafka_DeleteTopics(client, topics, 1, nullptr, queue); },
              [](rd_kafka_event_t* event) {
                std::size_t count = 0;
                const auto** results =
                    rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count);
                return topic_error(results, count);
              });
}

std::string Admin::add_partitions(const std::string& name, int total) {
  char problem[512];
  const std::unique_ptr<rd_kafka_NewPartitions_t, decltype(&rd_kafka_NewPartitions_destroy)> more(
      rd_kafka_NewPartitions_new(name.c_str(), static_cast<std::size_t>(total), problem, sizeof problem),
      rd_kafka_NewPartitions_destroy);
  if (more == nullptr) return problem;
  rd_kafka_NewPartitions_t* all[] = {more.get()};
  return done([&](rd_kafka_t* client,
                  rd_kafka_queue_t* queue) { rd_kafka_CreatePartitions(client, all, 1, nullptr, queue); },
              [](rd_kafka_event_t* event) {
                std::size_t count = 0;
                const auto** results = rd_kafka_CreatePartitions_result_topics(
                    rd_kafka_event_CreatePartitions_result(event), &count);
                return topic_error(results, count);
              });
}

std::string Admin::alter(int resource, const std::string& name, const Settings& settings) {
  const std::unique_ptr<rd_kafka_ConfigResource_t, decltype(&rd_kafka_ConfigResource_destroy)> config(
      rd_kafka_ConfigResource_new(static_cast<rd_kafka_ResourceType_t>(resource), name.c_str()),
      rd_kafka_ConfigResource_destroy);
  for (const auto& [key, value] : settings) {
    rd_kafka_ConfigResource_set_config(config.get(), key.c_str(), value.c_str());
  }
  rd_kafka_ConfigResource_t* configs[] = {config.get()};
  return done([&](rd_kafka_t* client,
                  rd_kafka_queue_t* queue) { rd_kafka_AlterConfigs(client, configs, 1, nullptr, queue); },
              [](rd_kafka_event_t* event) -> std::string {
                std::size_t count = 0;
                const auto** results =
                    rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event), &count);
                SG_CHECK(count == 1, "a result of one resource");
                if (rd_kafka_ConfigResource_error(results[0]) == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
                return rd_kafka_ConfigResource_error_string(results[0]);
              });
}

std::string Admin::set_topic(const std::string& name, const Settings& settings) {
  return alter(RD_KAFKA_RESOURCE_TOPIC, name, settings);
}

std::string Admin::set_broker(const std::string& broker, const Settings& settings) {
  return alter(RD_KAFKA_RESOURCE_BROKER, broker, settings);
}

std::string Admin::own_topic(const std::string& name, const std::string& principal) {
  return own(RD_KAFKA_RESOURCE_TOPIC, name, principal);
}

std::string Admin::own_cluster(const std::string& principal) {
  return own(RD_KAFKA_RESOURCE_BROKER, "kafka-cluster", principal);
}

std::string Admin::own(int resource, const std::string& name, const std::string& principal) {
  char problem[512];
  const std::unique_ptr<rd_kafka_AclBinding_t, decltype(&rd_kafka_AclBinding_destroy)> binding(
      rd_kafka_AclBinding_new(static_cast<rd_kafka_ResourceType_t>(resource), name.c_str(),
                              RD_KAFKA_RESOURCE_PATTERN_LITERAL, principal.c_str(), "*",
                              RD_KAFKA_ACL_OPERATION_ALL, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, problem,
                              sizeof problem),
      rd_kafka_AclBinding_destroy);
  if (binding == nullptr) return problem;
  rd_kafka_AclBinding_t* bindings[] = {binding.get()};
  return done([&](rd_kafka_t* client,
                  rd_kafka_queue_t* queue) { rd_kafka_CreateAcls(client, bindings, 1, nullptr, queue); },
              [](rd_kafka_event_t* event) -> std::string {
                std::size_t count = 0;
                const auto** results =
                    rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &count);
                SG_CHECK(count == 1, "a result of one binding");
                const rd_kafka_error_t* error = rd_kafka_acl_result_error(results[0]);
                return error == nullptr ? "" : rd_kafka_error_string(error);
              });
}

std::vector<std::string> Admin::live_brokers() {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(client_, 0, nullptr, &metadata, wait_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  std::vector<std::string> addresses;
  for (int each = 0; each < metadata->broker_cnt; ++each)
    addresses.push_back(std::string(metadata->brokers[each].host) + ":" +
                        std::to_string(metadata->brokers[each].port));
  rd_kafka_metadata_destroy(metadata);
  return addresses;
}

void Admin::look(const std::string& topic, int partition,
                 const std::function<void(const rd_kafka_metadata_partition&)>& see) {
  const rd_kafka_metadata_t* metadata = nullptr;
  rd_kafka_topic_t* handle = rd_kafka_topic_new(client_, topic.c_str(), nullptr);
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client_, 0, handle, &metadata, wait_ms);
  rd_kafka_topic_destroy(handle);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  for (int each = 0; metadata->topic_cnt == 1 && each < metadata->topics[0].partition_cnt; ++each) {
    if (metadata->topics[0].partitions[each].id == partition) see(metadata->topics[0].partitions[each]);
  }
  rd_kafka_metadata_destroy(metadata);
}

int Admin::leader(const std::string& topic, int partition) {
  int leader = -1;
  look(topic, partition, [&](const auto& found) { leader = found.leader; });
  return leader;
}

std::vector<int> Admin::replicas(const std::string& topic, int partition) {
  std::vector<int> replicas;
  look(topic, partition,
       [&](const auto& found) { replicas.assign(found.replicas, found.replicas + found.replica_cnt); });
  return replicas;
}

int Admin::coordinator(const std::string& transactional_id) {
  return leader("__transaction_state",
                static_cast<int>(java_hash(transactional_id) % transaction_partitions));
}

}  // namespace sandglass::tests::support
