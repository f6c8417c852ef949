#include "engine/journal/kafka/cluster/settings.h"

#include <sstream>
#include <string_view>
#include <utility>

#include "engine/base/data_folder.h"
#include "engine/base/log.h"

namespace sandglass::engine::journal::kafka::cluster {

namespace {

constexpr std::size_t most_settings_bytes = 1 << 20;

/// Settings that say who and where we are. All others the journal rests on, or they would weaken a check.
bool may_be_set(std::string_view name) {
  for (const std::string_view prefix : {"ssl.", "sasl."}) {
    if (name.starts_with(prefix)) return true;
  }
  for (const std::string_view whole : {"security.protocol", "broker.address.family", "client.rack"}) {
    if (name == whole) return true;
  }
  return false;
}

bool is_secret(std::string_view name) {
  return name.contains("password") || name.contains("secret") || name.contains("pem") ||
         name.starts_with("sasl.oauthbearer");
}

void log_line(const rd_kafka_t* /*client*/, int level, const char* facility, const char* text) {
  // syslog's levels: up to 4 a warning, up to 3 an error. A broker that is away is no error of ours.
  base::log(level <= 4 ? base::LogLevel::warning : base::LogLevel::debug, "kafka_client",
            {{"facility", facility}, {"text", text}});
}

}  // namespace

base::Result<Settings> read_settings(std::string bootstrap, const std::vector<std::string>& settings,
                                     const std::string& file) {
  Settings read{.bootstrap = std::move(bootstrap)};
  std::vector<std::string> all;
  if (!file.empty()) {
    const auto text = base::read_whole_file(file, most_settings_bytes);
    if (!text) return std::unexpected(text.error());
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.front() != '#') all.push_back(line);
    }
  }
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& each : all) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      // What stands there may be a secret.
      return base::fail(
          base::Code::config_invalid,
          "a setting of the Kafka client has the form name=value, for example security.protocol=ssl");
    }
    read.client[each.substr(0, equals)] = each.substr(equals + 1);
  }
  return read;
}

base::Status set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  char problem[512];
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), problem, sizeof problem) == RD_KAFKA_CONF_OK)
    return {};
  // librdkafka's words repeat the value.
  return base::fail(base::Code::config_invalid, "the Kafka client's setting " + name + " is not acceptable" +
                                                    (is_secret(name) ? "" : std::string(": ") + problem));
}

base::Result<Conf> client_conf(const Settings& settings) {
  if (settings.bootstrap.empty()) {
    return base::fail(base::Code::config_invalid, "no Kafka brokers are named: set their host:port,…");
  }
  Conf conf(rd_kafka_conf_new());
  rd_kafka_conf_set_log_cb(conf.get(), log_line);
  std::map<std::string, std::string> all{{"bootstrap.servers", settings.bootstrap},
                                         {"client.id", "sandglass"},
                                         {"socket.nagle.disable", "true"},
                                         {"log.connection.close", "false"}};
  for (const auto& [name, value] : settings.client) {
    if (!may_be_set(name)) {
      return base::fail(base::Code::config_invalid,
                        "the Kafka client's setting " + name +
                            " cannot be set: only security.protocol, ssl.*, sasl.*, "
                            "broker.address.family and client.rack can");
    }
    all[name] = value;
  }
  for (const auto& [name, value] : all) {
    if (auto status = set(conf.get(), name, value); !status) return std::unexpected(status.error());
  }
  return conf;
}

base::Result<Client> new_client(rd_kafka_type_t type, Conf conf) {
  char problem[512];
  rd_kafka_t* client = rd_kafka_new(type, conf.get(), problem, sizeof problem);
  if (client == nullptr) {
    return base::fail(base::Code::config_invalid, std::string("the Kafka client does not start: ") + problem);
  }
  (void)conf.release();  // now the client's
  return Client(client);
}

}  // namespace sandglass::engine::journal::kafka::cluster
