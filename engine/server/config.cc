#include "engine/server/config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/base/text.h"
#include "engine/net/rules.h"
#include "engine/server/yaml_reader.h"
#include "engine/yaml/bounds.h"

namespace sandglass::engine::server {

namespace {

using base::Code;

constexpr std::size_t kMaxFileBytes = 1 << 20;

struct Address {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};
};

std::optional<Address> parse_address(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.v6 = true;
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::optional<std::uint32_t> parse_decimal(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > most)
    return std::nullopt;
  return value;
}

/// What is wrong with a CIDR range, or nothing.
std::string range_problem(const std::string& text) {
  const auto slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return "'" + text + "' is not an address range; write for example 127.0.0.1/32";
  if (slash == std::string::npos)
    return "'" + text + "' lacks the prefix length; one address is written " + text + "/32";
  const std::uint32_t bits = address->v6 ? 128 : 32;
  const auto length = parse_decimal(std::string_view(text).substr(slash + 1), bits);
  if (!length) return "'" + text + "' needs a prefix length from 0 to " + std::to_string(bits);
  for (std::uint32_t bit = *length; bit < bits; ++bit) {
    if ((address->bytes[bit / 8] >> (7 - bit % 8)) & 1) {
      return "'" + text + "' has bits set behind its prefix; the range must begin at its first address";
    }
  }
  return {};
}

/// "address:port" or "[v6]:port" with an address, not a name; `port_optional` for resolvers.
std::string endpoint_problem(const std::string& text, bool port_optional) {
  if (port_optional && parse_address(text)) return {};
  const auto colon = text.rfind(':');
  if (colon != std::string::npos) {
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    const auto port = parse_decimal(std::string_view(text).substr(colon + 1), 65535);
    if (parse_address(host) && port) return {};
  }
  return "'" + text + "' is not an address and port; write for example 127.0.0.1:7233";
}

bool is_host_name(const std::string& text) {
  if (text.empty() || text.size() > 253 || text.front() == '.' || text.front() == '-') return false;
  if (parse_address(text)) return true;
  return std::ranges::all_of(
      text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'; });
}

YamlHandler read_ports(const std::string& path, YamlProblems& problems, std::vector<std::uint16_t>& ports) {
  return read_list(path, problems, [path, &problems, &ports](const YAML::Node& item) {
    read_number(path, problems, ports.emplace_back(), 1)(item);
  });
}

void read_internal(const YAML::Node& node, YamlProblems& problems, Config& config) {
  InternalTarget target;
  target.where = problems.where(node);
  const std::string path = "network.internal[]";
  read_mapping(node, path, problems,
               {{"host", read_text(path + ".host", problems, target.host)},
                {"ports", read_ports(path + ".ports", problems, target.ports)},
                {"ranges", read_list(path + ".ranges", problems, [&](const YAML::Node& item) {
                   std::string range;
                   read_text(path + ".ranges", problems, range)(item);
                   if (const auto problem = range_problem(range); !problem.empty())
                     problems.add(item, problem);
                   target.ranges.push_back(range);
                 })}});
  if (!is_host_name(target.host)) {
    problems.add(node, "'network.internal[].host' must be a host name in lower case or an address");
  }
  if (target.ports.empty()) problems.add(node, "'network.internal[].ports' must name at least one port");
  if (target.ranges.empty())
    problems.add(node, "'network.internal[].ranges' must name at least one address range");
  config.internal.push_back(std::move(target));
}

void read_allowed(const YAML::Node& node, YamlProblems& problems, Config& config) {
  AllowedTarget target;
  const std::string path = "network.allow[]";
  read_mapping(node, path, problems,
               {{"host", read_text(path + ".host", problems, target.host)},
                {"ports", read_ports(path + ".ports", problems, target.ports)},
                {"methods", read_list(path + ".methods", problems, [&](const YAML::Node& item) {
                   std::string method;
                   read_text(path + ".methods", problems, method)(item);
                   target.methods.push_back(method);
                 })}});
  const net::RuleText rule{.id = {}, .host = target.host, .ports = target.ports, .methods = target.methods};
  if (const auto parsed = net::RuleSet::parse({&rule, 1}); !parsed)
    problems.add(node, "'network.allow': " + parsed.error().message);
  config.allow.push_back(std::move(target));
}

void read_host(const YAML::Node& node, YamlProblems& problems, Config& config) {
  ListedHost host;
  const std::string path = "network.hosts[]";
  read_mapping(node, path, problems,
               {{"name", read_text(path + ".name", problems, host.name)},
                {"addresses", read_list(path + ".addresses", problems, [&](const YAML::Node& item) {
                   std::string address;
                   read_text(path + ".addresses", problems, address)(item);
                   if (!parse_address(address))
                     problems.add(item, "'" + address + "' is not an address; write for example 192.0.2.7");
                   host.addresses.push_back(address);
                 })}});
  const auto name = net::parse_host(host.name);
  if (!name || name->literal) problems.add(node, "'network.hosts[].name' must be a host name");
  if (host.addresses.empty())
    problems.add(node, "'network.hosts[].addresses' must name at least one address");
  config.hosts.push_back(std::move(host));
}

void read_resolver(const YAML::Node& node, YamlProblems& problems, Config& config) {
  std::string resolver;
  read_text("network.resolvers", problems, resolver)(node);
  if (const auto problem = endpoint_problem(resolver, /*port_optional=*/true); !problem.empty())
    problems.add(node, problem);
  config.resolvers.push_back(resolver);
}

YamlHandler mapping(const std::string& path, YamlProblems& problems, YamlKeys keys) {
  return [=, &problems, keys = std::move(keys)](const YAML::Node& node) {
    read_mapping(node, path, problems, keys);
  };
}

YamlHandler network_mapping(YamlProblems& problems, Config& config) {
  const auto each = [&](const std::string& path, auto read) {
    return read_list(path, problems,
                     [&problems, &config, read](const YAML::Node& item) { read(item, problems, config); });
  };
  const auto number = [&](const std::string& name, auto& out, std::uint64_t most) {
    return std::pair{name, read_number("network.limits." + name, problems, out, 1, most)};
  };
  EgressSettings& limits = config.egress;
  return mapping(
      "network", problems,
      {{"internal", each("network.internal", read_internal)},
       {"allow", each("network.allow", read_allowed)},
       {"hosts", each("network.hosts", read_host)},
       {"resolvers", each("network.resolvers", read_resolver)},
       {"limits", mapping("network.limits", problems,
                          {number("connections", limits.connections, 10'000),
                           number("body_bytes", limits.body_bytes, 1ULL << 40),
                           number("sent_bytes", limits.sent_bytes, 1ULL << 50),
                           number("sent_bytes_per_host", limits.sent_bytes_per_host, 1ULL << 50)})}});
}

/// A list of names of variables; the sandbox host refuses the same ones again.
YamlHandler variable_names(const std::string& path, YamlProblems& problems, std::vector<std::string>& names) {
  return read_list(path, problems, [path, &problems, &names](const YAML::Node& item) {
    const std::string name = item.IsScalar() ? item.Scalar() : std::string();
    const bool plain =
        !name.empty() && name.size() <= 128 && (name[0] < '0' || name[0] > '9') &&
        std::ranges::all_of(name, [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        });
    if (!plain || name.starts_with("LD_"))
      return problems.add(item, "'" + path + "' is a list of variables' names, such as CI; LD_… is refused");
    names.push_back(name);
  });
}

/// sandbox.templates.NAME.limits: the values of a template, in the unit that the key names.
YamlHandler template_limits(const std::string& path, YamlProblems& problems,
                            sandbox_runtime::provider::Template& tmpl) {
  using sandbox_runtime::provider::LimitKind;
  struct Key {
    std::string_view name;
    LimitKind kind;
    std::uint64_t unit;
  };
  static constexpr std::uint64_t kMiB = 1 << 20;
  static constexpr std::uint64_t kBytesPerFile = 512;  // what the file system keeps of each, twice
  static constexpr Key kKeys[] = {{"memory_mib", LimitKind::memory, kMiB},
                                  {"processes", LimitKind::pids, 1},
                                  {"processors_milli", LimitKind::cpu, 1},
                                  {"disk_mib", LimitKind::disk, kMiB},
                                  {"files", LimitKind::inodes, 1},
                                  {"open_files", LimitKind::open_files, 1},
                                  {"output_kib", LimitKind::output, 1024},
                                  {"command_ms", LimitKind::exec_wall, 1},
                                  {"command_cpu_ms", LimitKind::exec_cpu, 1},
                                  {"life_ms", LimitKind::life, 1}};
  YamlKeys keys;
  for (const Key& key : kKeys) {
    const std::string full = path + "." + std::string(key.name);
    keys.emplace_back(key.name, [&problems, &tmpl, full, key](const YAML::Node& node) {
      std::uint64_t value = 0;
      read_number(full, problems, value, 1, UINT64_MAX / key.unit)(node);
      tmpl.limits.of(key.kind).value = value * key.unit;
    });
  }
  return [&problems, &tmpl, path, read = mapping(path, problems, std::move(keys))](const YAML::Node& node) {
    read(node);
    const auto checked = sandbox_runtime::provider::check_spec({.id = "any", .tmpl = tmpl});
    if (!checked) problems.add(node, checked.error().message);
    const auto& [files, disk] = std::pair(tmpl.limits.inodes.value, tmpl.limits.disk.value);
    if (files > disk / kBytesPerFile) {
      problems.add(node, "'" + path + ".files': " + std::to_string(files) +
                             " do not fit on the disk; set at most " + std::to_string(disk / kBytesPerFile) +
                             ", or a larger disk_mib");
    }
  };
}

/// sandbox.templates.NAME.on_limit.LIMIT: report | kill; .env_allow: [VARIABLE]; .limits
YamlHandler templates_mapping(YamlProblems& problems, Config& config) {
  namespace provider = sandbox_runtime::provider;
  const std::string path = "sandbox.templates";
  YamlKeys templates;
  for (auto& [name, tmpl] : config.sandbox.templates) {
    const std::string on_limit = path + "." + name + ".on_limit";
    YamlKeys limits;
    for (const provider::LimitKind kind : provider::kAllLimits) {
      if (!provider::has_on_limit(kind)) continue;
      const std::string limit(provider::name_of(kind));
      provider::OnLimit& out = tmpl.limits.of(kind).on_limit;
      limits.emplace_back(limit, [&problems, &out, full = on_limit + "." + limit](const YAML::Node& node) {
        const std::string text = node.IsScalar() ? node.Scalar() : std::string();
        if (text != "report" && text != "kill")
          return problems.add(node, "'" + full + "' must be report or kill");
        out = text == "kill" ? provider::OnLimit::kill : provider::OnLimit::report;
      });
    }
    const std::string env_allow = path + "." + name + ".env_allow";
    templates.emplace_back(
        name, mapping(path + "." + name, problems,
                      {{"limits", template_limits(path + "." + name + ".limits", problems, tmpl)},
                       {"on_limit", mapping(on_limit, problems, std::move(limits))},
                       {"env_allow", variable_names(env_allow, problems, tmpl.env_allow)}}));
  }
  return mapping(path, problems, std::move(templates));
}

YamlHandler journal_kind(YamlProblems& problems, Config& config) {
  return [&](const YAML::Node& node) {
    std::string kind;
    read_text("journal", problems, kind)(node);
    if (kind == "kafka") {
      config.journal = JournalKind::kafka;
    } else if (kind != "embedded") {
      problems.add(node, "'journal' must be embedded or kafka");
    }
  };
}

YamlHandler publish_target(YamlProblems& problems, Config& config) {
  return [&](const YAML::Node& node) {
    std::string target;
    read_text("publish", problems, target)(node);
    config.publish_on_kafka = target == "kafka";
    if (target != "kafka" && target != "nowhere") problems.add(node, "'publish' must be kafka or nowhere");
  };
}

/// What is right only together with something else.
void check_kafka(const YAML::Node& root, YamlProblems& problems, const Config& config) {
  const bool journal = config.journal == JournalKind::kafka;
  if (journal && config.publish_on_kafka) {
    problems.add(root["publish"],
                 "'publish: kafka' is for the embedded journal; with 'journal: kafka' the records are on the "
                 "topic already: remove 'publish'");
  }
  if (!config.kafka.bootstrap.empty()) return;
  for (const auto& [wanted, key] : {std::pair(journal, "journal"), {config.publish_on_kafka, "publish"}}) {
    if (wanted) {
      problems.add(root, std::string("'") + key + ": kafka' needs 'kafka.bootstrap', the brokers' host:port");
    }
  }
}

YamlHandler kafka_mapping(YamlProblems& problems, Config& config) {
  KafkaSettings& kafka = config.kafka;
  return mapping(
      "kafka", problems,
      {{"bootstrap", read_text("kafka.bootstrap", problems, kafka.bootstrap)},
       {"topic", read_text("kafka.topic", problems, kafka.topic)},
       {"client", read_list("kafka.client", problems,
                            [&](const YAML::Node& item) {
                              std::string setting;
                              read_text("kafka.client", problems, setting)(item);
                              kafka.client.push_back(setting);
                            })},
       {"skip", read_list("kafka.skip", problems,
                          [&](const YAML::Node& item) {
                            std::string message;
                            read_text("kafka.skip", problems, message)(item);
                            kafka.skip.push_back(message);
                          })},
       {"client_file", read_text("kafka.client_file", problems, kafka.client_file)},
       {"lease_ms", read_number("kafka.lease_ms", problems, kafka.lease_ms, 6'000, 300'000)},
       {"accept_loss", read_bool("kafka.accept_loss", problems, kafka.accept_loss)},
       {"take_over", read_bool("kafka.take_over", problems, kafka.take_over)},
       {"republish_from_view", read_bool("kafka.republish_from_view", problems, kafka.republish_from_view)},
       {"publish_interval_ms",
        read_number("kafka.publish_interval_ms", problems, kafka.publish_interval_ms, 10, 60'000)}});
}

/// Names and a whole number each.
YamlHandler read_numbers(const std::string& path, YamlProblems& problems,
                         std::map<std::string, double, std::less<>>& out) {
  return [=, &problems, &out](const YAML::Node& node) {
    if (!node.IsMap()) return problems.add(node, "'" + path + "' must be a mapping (name: number)");
    for (const auto& entry : node) {
      if (!entry.first.IsScalar() || entry.first.Scalar().empty())
        return problems.add(entry.first, "a key of '" + path + "' must be a name");
      std::uint32_t value = 0;
      read_number(path + "." + entry.first.Scalar(), problems, value, 1, 1'000'000)(entry.second);
      if (!out.emplace(entry.first.Scalar(), value).second)
        problems.add(entry.first, "'" + path + "." + entry.first.Scalar() + "' is there twice; remove one");
    }
  };
}

YamlHandler workers_mapping(YamlProblems& problems, Config& config) {
  WorkerLimits& workers = config.workers;
  return mapping("workers", problems,
                 {{"lease_ms", read_number("workers.lease_ms", problems, workers.lease_ms, 1000, 600'000)},
                  {"per_second", read_numbers("workers.per_second", problems, workers.per_second)},
                  {"weights", read_numbers("workers.weights", problems, workers.weights)}});
}

void read_top(const YAML::Node& root, YamlProblems& problems, Config& config) {
  Limits& limits = config.limits;
  const auto number = [&](const std::string& path, auto& out, std::uint64_t least, std::uint64_t most) {
    return read_number(path, problems, out, least, most);
  };
  const auto endpoint = [&](const std::string& path, std::string& out, bool port_optional) -> YamlHandler {
    return [&problems, &out, path, port_optional](const YAML::Node& node) {
      read_text(path, problems, out)(node);
      if (const auto problem = endpoint_problem(out, port_optional); !problem.empty())
        problems.add(node, problem);
    };
  };
  const YamlHandler loopback_endpoint = [&](const YAML::Node& node) {
    endpoint("listen.tcp", config.listen_tcp, false)(node);
    // Tokens travel in the clear there.
    if (!config.listen_tcp.starts_with("127.") && !config.listen_tcp.starts_with("[::1]")) {
      problems.add(
          node,
          "'listen.tcp' must be an address of loopback (127.0.0.1:PORT): the connection is not encrypted");
    }
  };
  read_mapping(
      root, "", problems,
      {{"listen", mapping("listen", problems, {{"tcp", loopback_endpoint}})},
       {"limits",
        mapping("limits", problems,
                {{"sandboxes", number("limits.sandboxes", limits.sandboxes, 1, 10'000)},
                 {"sandboxes_per_user",
                  number("limits.sandboxes_per_user", limits.sandboxes_per_user, 1, 10'000)},
                 {"calls_in_flight", number("limits.calls_in_flight", limits.calls_in_flight, 1, 100'000)},
                 {"follows", number("limits.follows", limits.follows, 1, 100'000)},
                 {"request_bytes", number("limits.request_bytes", limits.request_bytes, 65'536, 64 << 20)},
                 {"upload_bytes", number("limits.upload_bytes", limits.upload_bytes, 1, 1ULL << 40)},
                 {"upload_files", number("limits.upload_files", limits.upload_files, 1, 10'000'000)}})},
       {"network", network_mapping(problems, config)},
       {"journal", journal_kind(problems, config)},
       {"publish", publish_target(problems, config)},
       {"kafka", kafka_mapping(problems, config)},
       {"engine",
        mapping("engine", problems,
                {{"partitions", number("engine.partitions", config.engine.partitions, 1, 64)},
                 {"activation_wait_ms",
                  number("engine.activation_wait_ms", config.engine.activation_wait_ms, 0, 1000)},
                 {"idle_exit_ms", number("engine.idle_exit_ms", config.engine.idle_exit_ms, 1, 86'400'000)},
                 {"task_threads", number("engine.task_threads", config.engine.task_threads, 1, 256)},
                 {"sync", read_bool("engine.sync", problems, config.engine.sync)}})},
       {"effects",
        mapping(
            "effects", problems,
            {{"max_in_flight", number("effects.max_in_flight", config.effects.max_in_flight, 1, 4096)},
             {"max_per_target", number("effects.max_per_target", config.effects.max_per_target, 1, 4096)}})},
       {"workers", workers_mapping(problems, config)},
       {"sandbox",
        mapping("sandbox", problems,
                {{"disk_floor_mib",
                  number("sandbox.disk_floor_mib", config.sandbox.disk_floor_mib, 0, 1ULL << 30)},
                 {"lease_ms", number("sandbox.lease_ms", config.sandbox.lease_ms, 1000, 86'400'000)},
                 {"adopt_grace_ms",
                  number("sandbox.adopt_grace_ms", config.sandbox.adopt_grace_ms, 1000, 600'000)},
                 {"templates", templates_mapping(problems, config)}})},
       {"processes", mapping("processes", problems,
                             {{"first_uid", number("processes.first_uid", config.processes.first_uid, 0,
                                                   0xFFFFFF00ULL)}})}});
}

/// The tree of a text that stays within bounds; `name` says whose text it is, and its line is told if it has
/// lines.
base::Result<YAML::Node> load_yaml(const std::string& text, const std::string& name, bool lines = true) {
  if (const auto found = yaml::find_fault(text)) {
    const bool told = lines && found->line != 0;
    const std::string place =
        told ? name + ":" + std::to_string(found->line) + ":" + std::to_string(found->column) : name;
    return base::fail(Code::config_invalid, place + ": " + base::escape_for_terminal(found->what));
  }
  return YAML::Load(text);
}

/// Puts "a.b=c" into the tree, so that it is read and checked as if it stood in the file.
base::Status apply_setting(YAML::Node root, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return base::fail(Code::usage,
                      "'" + setting + "' is not a setting; write key=value, for example limits.sandboxes=5");
  }
  std::istringstream keys(setting.substr(0, equals));
  std::string key;
  std::vector<std::string> path;
  while (std::getline(keys, key, '.')) path.push_back(key);
  YAML::Node node(root);
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    YAML::Node next = node[path[i]];
    if (!next.IsMap()) next = YAML::Node(YAML::NodeType::Map);
    node[path[i]] = next;
    node.reset(next);
  }
  auto value =
      load_yaml(setting.substr(equals + 1), "the setting " + setting.substr(0, equals), /*lines=*/false);
  if (!value) return std::unexpected(value.error());
  node[path.back()] = *value;
  return {};
}

/// A setting by itself, so that what is wrong with it is not told of a line in the file.
base::Status check_setting(const std::string& setting) {
  Config config;
  YamlProblems problems("the setting " + setting, /*lines=*/false);
  YAML::Node root(YAML::NodeType::Map);
  if (auto applied = apply_setting(root, setting); !applied) return applied;
  read_top(root, problems, config);
  if (problems.any()) return base::fail(Code::config_invalid, base::escape_for_terminal(problems.first()));
  return {};
}

}  // namespace

base::Result<Config> parse_config(std::string_view text, const std::string& name,
                                  const std::vector<std::string>& settings) {
  Config config;
  YamlProblems problems(name);
  try {
    auto loaded = load_yaml(std::string(text), name);
    if (!loaded) return std::unexpected(loaded.error());
    YAML::Node root = *loaded;
    if (!root.IsDefined() || root.IsNull()) root = YAML::Node(YAML::NodeType::Map);
    if (root.IsMap()) {
      for (const auto& setting : settings) {
        if (auto checked = check_setting(setting); !checked) return std::unexpected(checked.error());
        if (auto applied = apply_setting(root, setting); !applied) return std::unexpected(applied.error());
      }
    }
    read_top(root, problems, config);
    check_kafka(root, problems, config);
  } catch (const YAML::Exception& e) {
    return base::fail(Code::config_invalid, name + ":" + std::to_string(e.mark.line + 1) +
                                                ": not valid YAML: " + base::escape_for_terminal(e.msg));
  }
  if (problems.any()) return base::fail(Code::config_invalid, base::escape_for_terminal(problems.first()));
  return config;
}

base::Result<Config> load_config(const std::string& path, bool must_exist,
                                 const std::vector<std::string>& settings) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int reason = errno;
    if ((reason == ENOENT || reason == ENOTDIR) && !must_exist) return parse_config("", path, settings);
    return base::fail(Code::file_unreadable,
                      "the configuration file " + path + " cannot be read: " + std::strerror(reason));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad())
    return base::fail(Code::file_unreadable, "reading the configuration file " + path + " failed");
  if (text.size() > kMaxFileBytes) return base::fail(Code::config_invalid, path + ": larger than 1 MiB");
  return parse_config(text, path, settings);
}

std::vector<std::string> split_settings(std::string_view text) {
  std::vector<std::string> settings;
  while (!text.empty()) {
    const auto end = text.find(';');
    if (end != 0) settings.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return settings;
}

}  // namespace sandglass::engine::server
