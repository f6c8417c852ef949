#include "engine/journal/kafka/cluster/inquiry.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sandglass::engine::journal::kafka::cluster {

namespace {

/// One attempt of a request. A broker that is stopped keeps its connections and answers nothing; the next
/// attempt goes elsewhere.
constexpr int attempt_ms = 4'000;
constexpr int first_metadata_ms = 500;
/// How long brokers that are known may take longer than the first one.
constexpr std::chrono::milliseconds straggler_ms{2'000};
constexpr int poll_ms = 50;

using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, Freed<rd_kafka_NewTopic_destroy>>;
using Resource = std::unique_ptr<rd_kafka_ConfigResource_t, Freed<rd_kafka_ConfigResource_destroy>>;
using Options = std::unique_ptr<rd_kafka_AdminOptions_t, Freed<rd_kafka_AdminOptions_destroy>>;

Options options_for(rd_kafka_t* client, rd_kafka_admin_op_t operation, int timeout_ms) {
  Options options(rd_kafka_AdminOptions_new(client, operation));
  char problem[256];
  rd_kafka_AdminOptions_set_request_timeout(options.get(), std::max(timeout_ms, 1), problem, sizeof problem);
  return options;
}

/// Errors after which the same request may succeed.
bool passes(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__DESTROY:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
      return true;
    default:
      return false;
  }
}

Layout layout_of(const rd_kafka_metadata_t& metadata) {
  Layout layout;
  for (int each = 0; each < metadata.broker_cnt; ++each) layout.brokers.push_back(metadata.brokers[each].id);
  std::ranges::sort(layout.brokers);
  const rd_kafka_metadata_topic_t& topic = metadata.topics[0];
  layout.exists = topic.err == RD_KAFKA_RESP_ERR_NO_ERROR && topic.partition_cnt > 0;
  for (int each = 0; each < topic.partition_cnt; ++each) {
    layout.replicas.push_back(topic.partitions[each].replica_cnt);
  }
  return layout;
}

}  // namespace

base::Result<std::unique_ptr<Inquiry>> Inquiry::begin(const Settings& settings, std::int64_t timeout_ms,
                                                      std::stop_token stop) {
  std::unique_ptr<Inquiry> inquiry(new Inquiry);
  auto conf = client_conf(settings);
  if (!conf) return std::unexpected(conf.error());
  inquiry->trouble_.attach(conf->get());
  // A producer's question for a topic would make it, where brokers do that.
  auto client = new_client(RD_KAFKA_CONSUMER, std::move(*conf));
  if (!client) return std::unexpected(client.error());
  inquiry->client_ = std::move(*client);
  inquiry->queue_.reset(rd_kafka_queue_new(inquiry->client_.get()));
  inquiry->stop_ = std::move(stop);
  inquiry->deadline_ = Steady::now() + std::chrono::milliseconds(timeout_ms);
  return inquiry;
}

int Inquiry::left_ms() const {
  if (stop_.stop_requested()) return 0;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Steady::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

base::Result<Layout> Inquiry::layout(const std::string& topic, bool must_exist) {
  const std::string doing = "ask for topic " + topic;
  const TopicHandle handle(rd_kafka_topic_new(client_.get(), topic.c_str(), nullptr));
  if (handle == nullptr) return std::unexpected(error_of(rd_kafka_last_error(), doing));
  // Longer every time, for brokers that are slow; but no longer than somebody who may end the wait would have
  // to.
  const int longest_ms = stop_.stop_possible() ? first_metadata_ms * 2 : std::numeric_limits<int>::max() / 2;
  for (int wait_ms = first_metadata_ms;; wait_ms = std::min(wait_ms * 2, longest_ms)) {
    const rd_kafka_metadata_t* found = nullptr;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(client_.get(), 0, handle.get(), &found, std::clamp(left_ms(), 1, wait_ms));
    rd_kafka_poll(client_.get(), 0);  // the error callback
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
      const std::unique_ptr<const rd_kafka_metadata_t, Freed<rd_kafka_metadata_destroy>> metadata(found);
      Layout layout = layout_of(*metadata);
      error = metadata->topics[0].err;
      const bool missing = error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
      if (layout.exists || (missing && !must_exist)) {
        char* id = rd_kafka_clusterid(client_.get(), std::max(left_ms(), 1));
        if (id != nullptr) layout.cluster = id;
        rd_kafka_mem_free(client_.get(), id);
        return layout;
      }
      if (error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
          error == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) {
        return std::unexpected(error_of(error, doing));
      }
    }
    if (trouble_.refused() || left_ms() == 0) return std::unexpected(trouble_.explain(error, doing));
  }
}

void Inquiry::describe(rd_kafka_ResourceType_t type, const std::string& name) {
  const Resource resource(rd_kafka_ConfigResource_new(type, name.c_str()));
  const Options options =
      options_for(client_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, std::min(left_ms(), attempt_ms));
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  rd_kafka_DescribeConfigs(client_.get(), resources, 1, options.get(), queue_.get());
}

base::Result<bool> Inquiry::take(rd_kafka_event_t* event, const std::string& topic, Configs& configs) const {
  const std::string doing = "read the settings of topic " + topic + " and of the brokers";
  if (const auto error = rd_kafka_event_error(event); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    if (passes(error)) return false;
    return std::unexpected(error_of(error, doing, rd_kafka_event_error_string(event)));
  }
  std::size_t count = 0;
  const auto** resources =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &count);
  for (std::size_t each = 0; each < count; ++each) {
    if (const auto error = rd_kafka_ConfigResource_error(resources[each]);
        error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      // A broker may hear of a topic a little later than the one that told us of it.
      if (passes(error) || error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) return false;
      const char* words = rd_kafka_ConfigResource_error_string(resources[each]);
      return std::unexpected(error_of(error, doing, words == nullptr ? "" : words));
    }
    Config config;
    std::size_t entries = 0;
    const auto** all = rd_kafka_ConfigResource_configs(resources[each], &entries);
    for (std::size_t entry = 0; entry < entries; ++entry) {
      const char* value = rd_kafka_ConfigEntry_value(all[entry]);  // none: a secret
      config[rd_kafka_ConfigEntry_name(all[entry])] = value == nullptr ? "" : value;
    }
    if (rd_kafka_ConfigResource_type(resources[each]) == RD_KAFKA_RESOURCE_TOPIC) {
      configs.topic = std::move(config);
    } else {
      configs.brokers[std::stoi(rd_kafka_ConfigResource_name(resources[each]))] = std::move(config);
    }
  }
  return true;
}

base::Result<Configs> Inquiry::configs(const std::string& topic, const std::vector<std::int32_t>& brokers) {
  Configs configs;
  describe(RD_KAFKA_RESOURCE_TOPIC, topic);
  for (const std::int32_t broker : brokers) describe(RD_KAFKA_RESOURCE_BROKER, std::to_string(broker));
  Steady::time_point enough = Steady::time_point::max();
  while (configs.topic.empty() || configs.brokers.size() < brokers.size()) {
    if (const Event event(rd_kafka_queue_poll(queue_.get(), poll_ms)); event != nullptr) {
      auto taken = take(event.get(), topic, configs);
      if (!taken) return std::unexpected(taken.error());
      if (!*taken && configs.topic.empty()) {
        rd_kafka_poll(client_.get(), poll_ms);
        describe(RD_KAFKA_RESOURCE_TOPIC, topic);
      }
    }
    rd_kafka_poll(client_.get(), 0);
    const bool some = !configs.topic.empty() && !configs.brokers.empty();
    if (some) enough = std::min(enough, Steady::now() + straggler_ms);
    if (some && Steady::now() >= std::min(enough, deadline_)) break;
    if (left_ms() == 0 || trouble_.refused()) {
      return std::unexpected(
          trouble_.explain(RD_KAFKA_RESP_ERR__TIMED_OUT, "read the settings of topic " + topic));
    }
  }
  return configs;
}

base::Status Inquiry::create(const std::string& topic, std::int32_t partitions, std::int32_t replicas,
                             const Config& config) {
  const std::string doing = "make topic " + topic;
  char problem[512];
  const NewTopic wanted(rd_kafka_NewTopic_new(topic.c_str(), partitions, replicas, problem, sizeof problem));
  if (wanted == nullptr)
    return base::fail(base::Code::config_invalid, "Kafka: could not " + doing + ": " + problem);
  for (const auto& [name, value] : config)
    rd_kafka_NewTopic_set_config(wanted.get(), name.c_str(), value.c_str());
  rd_kafka_NewTopic_t* topics[] = {wanted.get()};
  for (;;) {
    const Options options =
        options_for(client_.get(), RD_KAFKA_ADMIN_OP_CREATETOPICS, std::min(left_ms(), attempt_ms));
    rd_kafka_CreateTopics(client_.get(), topics, 1, options.get(), queue_.get());
    const Event event(rd_kafka_queue_poll(queue_.get(), attempt_ms + poll_ms));
    rd_kafka_poll(client_.get(), 0);
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
    std::string words;
    if (event != nullptr && (error = rd_kafka_event_error(event.get())) == RD_KAFKA_RESP_ERR_NO_ERROR) {
      std::size_t count = 0;
      const auto** results =
          rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
      error = rd_kafka_topic_result_error(results[0]);
      if (const char* told = rd_kafka_topic_result_error_string(results[0]); told != nullptr) words = told;
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) return {};
    if (!passes(error)) return std::unexpected(error_of(error, doing, words));
    if (trouble_.refused() || left_ms() == 0) return std::unexpected(trouble_.explain(error, doing));
  }
}

}  // namespace sandglass::engine::journal::kafka::cluster
