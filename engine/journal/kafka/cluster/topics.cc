#include "engine/journal/kafka/cluster/topics.h"

#include <algorithm>
#include <charconv>

#include "engine/journal/kafka/cluster/inquiry.h"

namespace sandglass::engine::journal::kafka::cluster {

namespace {

constexpr std::int32_t safe_replicas = 3;
constexpr std::int64_t least_in_sync = 2;
constexpr std::int64_t default_batch_bytes = 1'048'588;  // Kafka's own default

/// A setting that is not as it must be.
struct Finding {
  std::string where;  // "topic history", "broker 2"
  std::string name;
  std::string is;
  std::string must;
};

std::int64_t number(const std::string& text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Settings of one topic or broker, held against what they must be.
class Checked {
 public:
  Checked(std::string where, const Config& config, std::vector<Finding>& findings)
      : where_(std::move(where)), config_(config), findings_(findings) {}

  void is(const std::string& name, const std::string& must) {
    if (value(name) != must) findings_.push_back({where_, name, value(name), must});
  }
  void at_least(const std::string& name, std::int64_t must) {
    if (number(value(name)) < must) findings_.push_back({where_, name, value(name), std::to_string(must)});
  }

 private:
  std::string value(const std::string& name) const {
    const auto found = config_.find(name);
    return found == config_.end() ? "" : found->second;
  }

  std::string where_;
  const Config& config_;
  std::vector<Finding>& findings_;
};

/// What the topic is made with, and what it must have: one table for both.
void check_topic_config(const TopicRules& rules, bool one_broker, Checked topic) {
  topic.is("cleanup.policy", "delete");
  topic.is("retention.ms", "-1");
  topic.is("retention.bytes", "-1");
  topic.is("unclean.leader.election.enable", "false");
  // Brokers refuse messages whose own time is over an hour ahead of theirs, unless they set the time.
  topic.is("message.timestamp.type", "LogAppendTime");
  topic.at_least("max.message.bytes", rules.batch_bytes);
  if (one_broker) {
    topic.is("flush.messages", "1");
  } else {
    topic.at_least("min.insync.replicas", least_in_sync);
  }
}

Config config_to_make(const TopicRules& rules, bool one_broker) {
  Config config{{"cleanup.policy", "delete"},
                {"retention.ms", "-1"},
                {"retention.bytes", "-1"},
                {"unclean.leader.election.enable", "false"},
                {"message.timestamp.type", "LogAppendTime"},
                {"max.message.bytes", std::to_string(std::max(rules.batch_bytes, default_batch_bytes))},
                {"min.insync.replicas", std::to_string(one_broker ? 1 : least_in_sync)}};
  if (one_broker) config["flush.messages"] = "1";
  return config;
}

void check_broker_config(bool one_broker, Checked broker) {
  broker.is("transaction.partition.verification.enable", "true");
  if (one_broker) {
    broker.is("log.flush.interval.messages", "1");
  } else {
    // Where it is kept who was fenced.
    broker.at_least("transaction.state.log.replication.factor", safe_replicas);
    broker.at_least("transaction.state.log.min.isr", least_in_sync);
  }
}

/// kafka-configs' form of the findings about one kind of thing; empty if there are none.
std::string command(const std::vector<Finding>& findings, const std::string& kind,
                    const std::string& entity) {
  std::string values;
  for (const Finding& each : findings) {
    const std::string value = each.name + "=" + each.must;
    if (each.where.starts_with(kind) && !values.contains(value))
      values += (values.empty() ? "" : ",") + value;
  }
  if (values.empty()) return {};
  return "kafka-configs.sh --alter " + entity + " --add-config " + values;
}

base::Error unsafe(const TopicRules& rules, const std::vector<Finding>& findings) {
  std::string message = "Kafka: topic " + rules.topic + " would lose history:";
  for (const Finding& each : findings) {
    message += " " + each.where + ": " + each.name + " is \"" + each.is + "\" and must be " + each.must + ";";
  }
  const std::string topic = command(findings, "topic", "--entity-type topics --entity-name " + rules.topic);
  if (!topic.empty()) message += " set it with " + topic + ";";
  const std::string brokers = command(findings, "broker", "--entity-type brokers --entity-default");
  if (!brokers.empty()) message += " set it in server.properties of the brokers, or with " + brokers + ";";
  message.pop_back();
  return {base::Code::topic_unsafe, std::move(message)};
}

base::Status check_layout(const TopicRules& rules, const Layout& layout) {
  const std::string topic = "Kafka: topic " + rules.topic;
  if (!rules.cluster.empty() && layout.cluster != rules.cluster) {
    return base::fail(base::Code::topic_foreign, "Kafka: these brokers are cluster " + layout.cluster +
                                                     "; this journal is on cluster " + rules.cluster +
                                                     ". Name that cluster's bootstrap servers");
  }
  if (!layout.exists) {
    return base::fail(
        base::Code::topic_missing,
        topic + " does not exist on cluster " + layout.cluster +
            ". If it was deleted, its history is gone from Kafka; a new journal makes its own topic");
  }
  const auto partitions = static_cast<std::int32_t>(layout.replicas.size());
  if (partitions != rules.partitions) {
    return base::fail(
        base::Code::topic_foreign,
        topic + " has " + std::to_string(partitions) + " partitions and the journal " +
            std::to_string(rules.partitions) +
            ": it is another journal's, or somebody added partitions, which cannot be undone; name another "
            "topic");
  }
  const std::int32_t least = *std::ranges::min_element(layout.replicas);
  if (least < safe_replicas && (least != 1 || layout.brokers.size() != 1)) {
    return base::fail(
        base::Code::topic_unsafe,
        topic + " has a partition with " + std::to_string(least) + " replicas on " +
            std::to_string(layout.brokers.size()) +
            " brokers; it needs 3, or one broker alone that flushes every batch. Assign replicas with "
            "kafka-reassign-partitions.sh, or delete it if it is empty and let the engine make it");
  }
  return {};
}

base::Status check_versions(const Configs& configs) {
  for (const auto& [id, config] : configs.brokers) {
    // A setting that went with 4.0, and that every release before it had.
    if (!config.contains("inter.broker.protocol.version")) continue;
    return base::fail(
        base::Code::brokers_too_old,
        "Kafka: broker " + std::to_string(id) + " is older than 4.0 (it speaks " +
            config.at("inter.broker.protocol.version") +
            "): a transaction there can be left open by messages that come late. Use Kafka 4.0 or newer");
  }
  return {};
}

base::Result<TopicState> check(Inquiry& inquiry, const TopicRules& rules, const Layout& layout) {
  if (auto status = check_layout(rules, layout); !status) return std::unexpected(status.error());
  auto configs = inquiry.configs(rules.topic, layout.brokers);
  if (!configs) return std::unexpected(configs.error());
  if (auto status = check_versions(*configs); !status) return std::unexpected(status.error());
  TopicState state{.cluster = layout.cluster, .replicas = *std::ranges::min_element(layout.replicas)};
  state.one_broker = state.replicas == 1;
  std::vector<Finding> findings;
  check_topic_config(rules, state.one_broker, Checked("topic " + rules.topic, configs->topic, findings));
  for (const std::int32_t id : layout.brokers) {
    const auto found = configs->brokers.find(id);
    if (found == configs->brokers.end()) {
      state.silent.push_back(std::to_string(id));
    } else {
      check_broker_config(state.one_broker, Checked("broker " + std::to_string(id), found->second, findings));
    }
  }
  if (!findings.empty()) return std::unexpected(unsafe(rules, findings));
  return state;
}

}  // namespace

base::Result<TopicState> check_topic(const Settings& settings, const TopicRules& rules,
                                     std::int64_t timeout_ms, std::stop_token stop) {
  auto inquiry = Inquiry::begin(settings, timeout_ms, std::move(stop));
  if (!inquiry) return std::unexpected(inquiry.error());
  auto layout = (*inquiry)->layout(rules.topic, false);
  if (!layout) return std::unexpected(layout.error());
  return check(**inquiry, rules, *layout);
}

base::Result<TopicState> make_topic(const Settings& settings, const TopicRules& rules,
                                    std::int64_t timeout_ms, std::stop_token stop) {
  auto inquiry = Inquiry::begin(settings, timeout_ms, std::move(stop));
  if (!inquiry) return std::unexpected(inquiry.error());
  auto layout = (*inquiry)->layout(rules.topic, false);
  if (!layout) return std::unexpected(layout.error());
  if (!layout->exists && (rules.cluster.empty() || rules.cluster == layout->cluster)) {
    const std::size_t brokers = layout->brokers.size();
    if (brokers == 2) {
      return base::fail(
          base::Code::topic_unsafe,
          "Kafka: 2 brokers are up; topic " + rules.topic +
              " needs three to be replicated, or one alone that flushes every batch. Start the third");
    }
    const bool one_broker = brokers == 1;
    if (auto made = (*inquiry)->create(rules.topic, rules.partitions, one_broker ? 1 : safe_replicas,
                                       config_to_make(rules, one_broker));
        !made) {
      return std::unexpected(made.error());
    }
    layout = (*inquiry)->layout(rules.topic, true);
    if (!layout) return std::unexpected(layout.error());
  }
  return check(**inquiry, rules, *layout);
}

}  // namespace sandglass::engine::journal::kafka::cluster
