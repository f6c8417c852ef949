#include "engine/server/config.h"

#include <gtest/gtest.h>

namespace sandglass::engine::server {
namespace {

std::string problem(std::string_view text) {
  auto parsed = parse_config(text, "f.yaml");
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, base::Code::config_invalid);
  return parsed.error().message;
}

TEST(Config, AnEmptyFileGivesTheDefaults) {
  const auto config = parse_config("", "f.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->limits.sandboxes, 10U);
  EXPECT_TRUE(config->listen_tcp.empty());
}

TEST(Config, EveryPartIsRead) {
  const auto config = parse_config(R"(
listen: {tcp: "127.0.0.1:7233"}
limits: {sandboxes: 3, sandboxes_per_user: 1}
network:
  internal:
    - host: receiver.test
      ports: [8080, 8081]
      ranges: [127.0.0.1/32, "::1/128"]
  allow:
    - {host: "*.files.example.org", ports: [443], methods: [CONNECT]}
    - host: registry.example.com
  hosts: [{name: receiver.test, addresses: [127.0.0.1, "::1"]}]
  limits: {connections: 5, sent_bytes_per_host: 1000}
  resolvers: [9.9.9.9, "[2620:fe::fe]:53"]
engine: {partitions: 2}
workers: {lease_ms: 3000, per_second: {image.resize: 20}, weights: {acme: 3}}
sandbox:
  lease_ms: 4000
  adopt_grace_ms: 3000
  templates:
    default:
      limits: {memory_mib: 512, disk_mib: 100, processors_milli: 1500, command_ms: 3600000, life_ms: 7200000}
      on_limit: {pids: report, output: kill}
      env_allow: [CI, DEBUG_2]
)",
                                   "f.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen_tcp, "127.0.0.1:7233");
  ASSERT_EQ(config->internal.size(), 1U);
  EXPECT_EQ(config->internal[0].host, "receiver.test");
  EXPECT_EQ(config->internal[0].ports, (std::vector<std::uint16_t>{8080, 8081}));
  EXPECT_EQ(config->internal[0].where, "f.yaml:6");
  ASSERT_EQ(config->hosts.size(), 1U);
  EXPECT_EQ(config->hosts[0].addresses.size(), 2U);
  EXPECT_EQ(config->egress.connections, 5U);
  EXPECT_EQ(config->egress.sent_bytes_per_host, 1000U);
  ASSERT_EQ(config->allow.size(), 2U);
  EXPECT_EQ(config->allow[0].host, "*.files.example.org");
  EXPECT_EQ(config->allow[0].ports, std::vector<std::uint16_t>{443});
  EXPECT_EQ(config->allow[0].methods, std::vector<std::string>{"CONNECT"});
  EXPECT_EQ(config->engine.partitions, 2);
  EXPECT_EQ(config->workers.lease_ms, 3000U);  // E13
  EXPECT_EQ(config->workers.per_second.at("image.resize"), 20);
  EXPECT_EQ(config->workers.weights.at("acme"), 3);
  EXPECT_EQ(config->sandbox.lease_ms, 4000U);
  EXPECT_EQ(config->sandbox.adopt_grace_ms, 3000U);
  using sandbox_runtime::provider::OnLimit;  // V9
  const auto limits = [&](const char* name) { return config->sandbox.templates.at(name).limits; };
  EXPECT_EQ(limits("default").pids.on_limit, OnLimit::report);
  EXPECT_EQ(limits("default").output.on_limit, OnLimit::kill);
  EXPECT_EQ(limits("default").memory.value, 512U << 20);
  EXPECT_EQ(limits("default").disk.value, 100U << 20);
  EXPECT_EQ(limits("default").cpu.value, 1500U);
  EXPECT_EQ(limits("default").exec_wall.value, 3'600'000U);
  EXPECT_EQ(limits("default").life.value, 7'200'000U);
  EXPECT_EQ(limits("default").pids.value, limits("network").pids.value);
  EXPECT_EQ(limits("network").memory.value, 2048U << 20) << "of the named template alone";
  EXPECT_EQ(limits("default").disk.on_limit, OnLimit::automatic);
  EXPECT_EQ(limits("network").output.on_limit, OnLimit::automatic) << "of the named template alone";
  EXPECT_EQ(config->sandbox.templates.at("default").env_allow, (std::vector<std::string>{"CI", "DEBUG_2"}));
  EXPECT_TRUE(config->sandbox.templates.at("network").env_allow.empty());
}

TEST(Config, OnLimitIsSaidForLimitsThatCanBeChosenAndTemplatesThatExist) {
  EXPECT_EQ(problem("sandbox: {templates: {default: {on_limit: {disk: ignore}}}}"),
            "f.yaml:1: 'sandbox.templates.default.on_limit.disk' must be report or kill");
  EXPECT_NE(problem("sandbox: {templates: {default: {on_limit: {memory: kill}}}}")
                .find("unknown key 'sandbox.templates.default.on_limit.memory'; known here: pids, disk, "
                      "inodes, output"),
            std::string::npos);
  EXPECT_NE(problem("sandbox: {templates: {other: {}}}").find("unknown key 'sandbox.templates.other'"),
            std::string::npos);
}

TEST(Config, ALimitThatNothingUsefulFitsInIsRefusedWithItsPlace) {
  EXPECT_TRUE(problem("sandbox:\n  templates:\n    default:\n      limits: {memory_mib: 1}\n")
                  .starts_with("f.yaml:4: template 'default': limit memory is 1048576; it must be between"));
  EXPECT_TRUE(
      problem("sandbox:\n  templates:\n    default:\n      limits: {life_ms: 1h}\n")
          .starts_with("f.yaml:4: 'sandbox.templates.default.limits.life_ms' must be a whole number"));
  EXPECT_NE(
      problem("sandbox: {templates: {default: {limits: {memory: 5}}}}").find("known here: memory_mib, "),
      std::string::npos);
  EXPECT_EQ(
      problem("sandbox: {templates: {default: {limits: {disk_mib: 8}}}}"),
      "f.yaml:1: 'sandbox.templates.default.limits.files': 200000 do not fit on the disk; set at most 16384, "
      "or a larger disk_mib");
  EXPECT_EQ(problem("sandbox: {templates: {default: {limits: {disk_mib: 8, files: 16384}}}}"), "");
  EXPECT_NE(problem("sandbox: {templates: {default: {limits: {memory_mib: 18446744073709551615}}}}"), "");
}

TEST(Config, AVariableThatCouldNotBePassedInIsRefusedWithItsLine) {
  for (const char* name : {"LD_PRELOAD", "2X", "A-B", "\"\"", "[a]"}) {
    EXPECT_TRUE(problem("sandbox:\n  templates:\n    default: {env_allow: [" + std::string(name) + "]}\n")
                    .starts_with("f.yaml:3: 'sandbox.templates.default.env_allow'"))
        << name;
  }
}

// I5: what is wrong is named with file, line and what to do.
TEST(Config, AnUnknownKeyIsNamedWithItsLineAndTheKnownOnes) {
  EXPECT_EQ(problem("limits:\n  sandboxes: 3\n  sandbxes: 4\n").substr(0, 44),
            "f.yaml:3: unknown key 'limits.sandbxes'; kno");
  EXPECT_TRUE(problem("nettwork: {}").starts_with("f.yaml:1: unknown key 'nettwork'"));
}

TEST(Config, ADestinationThatWouldCoverManyOwnersIsAnErrorWithItsLine) {  // ADV-C19
  EXPECT_TRUE(problem("network:\n  allow:\n    - host: '*.com'\n").starts_with("f.yaml:3: 'network.allow'"));
  EXPECT_NE(problem("network:\n  allow:\n    - {host: a.example.com, ports: [0]}\n"), "");
  EXPECT_NE(problem("network:\n  allow:\n    - {host: a.example.com, methods: [get]}\n"), "");
  EXPECT_NE(problem("network:\n  allow:\n    - {ports: [443]}\n"), "");
  EXPECT_NE(problem("network:\n  allow:\n    - {host: 'https://a.example.com'}\n").find("without scheme"),
            std::string::npos);
  EXPECT_NE(problem("network:\n  hosts:\n    - {name: a.test, addresses: [b.test]}\n"), "");
  EXPECT_NE(problem("network:\n  hosts:\n    - {name: 127.0.0.1, addresses: [127.0.0.1]}\n"), "");
  EXPECT_NE(problem("network:\n  hosts:\n    - {name: a.test}\n"), "");
}

TEST(Config, ARateOfAQueueIsAWholeNumberAndSaidOnce) {  // E13
  for (const char* text : {"workers: {per_second: {q: fast}}", "workers: {per_second: {q: 0}}",
                           "workers: {per_second: {q: 1, q: 2}}", "workers: {per_second: 5}"}) {
    const auto config = parse_config(text, "f.yaml");
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message.find("workers.per_second"), std::string::npos) << config.error().message;
  }
}

TEST(Config, AWrongTypeOrADoubleKeyIsAnError) {
  EXPECT_TRUE(problem("limits:\n  sandboxes: many\n")
                  .starts_with("f.yaml:2: 'limits.sandboxes' must be a whole number"));
  EXPECT_TRUE(problem("limits:\n  sandboxes: -1\n").starts_with("f.yaml:2:"));
  EXPECT_TRUE(problem("limits:\n  sandboxes: 0\n").starts_with("f.yaml:2:"));
  EXPECT_TRUE(problem("limits: [1]").starts_with("f.yaml:1: 'limits' must be a mapping"));
  EXPECT_TRUE(problem("engine:\n  sync: yes\n").starts_with("f.yaml:2: 'engine.sync' must be true or false"));
  EXPECT_TRUE(problem("engine: {}\nengine: {}\n").starts_with("f.yaml:2: 'engine' is there twice"));
  EXPECT_TRUE(problem("a: [").starts_with("f.yaml:"));
  EXPECT_TRUE(problem("- 1").starts_with("f.yaml:1: the file must be a mapping"));
}

TEST(Config, BadAddressesAreNamed) {
  const auto internal = [](const std::string& range) {
    return problem("network:\n  internal:\n    - host: h\n      ports: [1]\n      ranges: [\"" + range +
                   "\"]\n");
  };
  EXPECT_EQ(internal("127.0.0.1/32"), "");
  EXPECT_TRUE(internal("localhost").starts_with("f.yaml:5: 'localhost' is not an address range"));
  EXPECT_TRUE(internal("127.0.0.1").starts_with("f.yaml:5: '127.0.0.1' lacks the prefix length"));
  EXPECT_TRUE(internal("10.0.0.1/8").starts_with("f.yaml:5: '10.0.0.1/8' has bits set"));
  EXPECT_TRUE(internal("10.0.0.0/33").starts_with("f.yaml:5:"));
  EXPECT_TRUE(internal("0x7f.1/32").starts_with("f.yaml:5:"));
  EXPECT_TRUE(problem("network:\n  internal:\n    - host: h\n").starts_with("f.yaml:3:"));
  EXPECT_TRUE(problem("listen: {tcp: \"localhost:1\"}").starts_with("f.yaml:1:"));
  EXPECT_TRUE(problem("listen: {tcp: \"127.0.0.1:70000\"}").starts_with("f.yaml:1:"));
  EXPECT_TRUE(problem("listen: {tcp: \"0.0.0.0:7233\"}")
                  .starts_with("f.yaml:1: 'listen.tcp' must be an address of loopback"));
}

TEST(Config, SettingsWinOverTheFileAndAreCheckedAlike) {
  const auto config =
      parse_config("limits: {sandboxes: 3}", "f.yaml", {"limits.sandboxes=7", "listen.tcp=127.0.0.1:1"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->limits.sandboxes, 7U);
  EXPECT_EQ(config->listen_tcp, "127.0.0.1:1");
  // No line of the file is to blame.
  EXPECT_TRUE(parse_config("a: 1", "f.yaml", {"limits.sandbxes=7"})
                  .error()
                  .message.starts_with("the setting limits.sandbxes=7: unknown key 'limits.sandbxes'"));
  EXPECT_TRUE(parse_config("", "f.yaml", {"limits.sandboxes=x"})
                  .error()
                  .message.starts_with("the setting limits.sandboxes=x: 'limits.sandboxes' must be"));
  EXPECT_TRUE(parse_config("kafka: {bootstrap: 'a:1'}", "f.yaml", {"journal=kafka"}));
  EXPECT_EQ(parse_config("", "f.yaml", {"nonsense"}).error().code, base::Code::usage);
  EXPECT_EQ(split_settings("a=1;;b.c=2"), (std::vector<std::string>{"a=1", "b.c=2"}));
}

TEST(Config, AShortFileCannotStandForAHugeOne) {
  const auto problem = [](const std::string& text) { return parse_config(text, "f.yaml").error().message; };
  std::string aliases;
  for (int i = 0; i < 10'000; ++i) aliases += "*a,";
  EXPECT_TRUE(problem("a: &a " + std::string(30'000, 'x') + "\nb: [" + aliases + "]\n")
                  .starts_with("f.yaml:2:104: more than 1,048,576 bytes of text"));
  EXPECT_TRUE(problem("a: &a [" + aliases + "]\n").starts_with("f.yaml:1:8: an alias that stands inside"));
  EXPECT_TRUE(problem("a: " + std::string(50, '[') + std::string(50, ']'))
                  .starts_with("f.yaml:1:44: nested more than 40 levels"));
  EXPECT_TRUE(problem("limits: {}\n---\nlimits: {}\n").starts_with("f.yaml:2:1: a second document"));
  EXPECT_TRUE(parse_config("", "f.yaml", {"network.allow=" + std::string(100, '[')})
                  .error()
                  .message.starts_with("the setting network.allow: nested more than 40 levels"));
}

TEST(Config, AMissingFileIsOnlyAnErrorWhenItWasNamed) {
  EXPECT_TRUE(load_config("/nonexistent/sandglass.yaml", false));
  EXPECT_EQ(load_config("/nonexistent/sandglass.yaml", true).error().code, base::Code::file_unreadable);
  EXPECT_EQ(load_config("/", true).error().code, base::Code::file_unreadable);
}

TEST(Config, KafkaIsTheJournalOrWhereItIsPublishedAndNamesItsBrokers) {
  const std::string kafka = "kafka: {bootstrap: \"b:9092\"}\n";
  const auto journal = parse_config("journal: kafka\n" + kafka, "f.yaml");
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_EQ(journal->journal, JournalKind::kafka);
  EXPECT_FALSE(journal->publish_on_kafka);
  const auto publish = parse_config("publish: kafka\n" + kafka, "f.yaml");
  ASSERT_TRUE(publish) << publish.error().message;
  EXPECT_EQ(publish->journal, JournalKind::embedded);
  EXPECT_TRUE(publish->publish_on_kafka);
  EXPECT_FALSE(parse_config("publish: nowhere", "f.yaml")->publish_on_kafka);
  EXPECT_EQ(problem("publish: kafka"),
            "f.yaml:1: 'publish: kafka' needs 'kafka.bootstrap', the brokers' host:port");
  EXPECT_EQ(problem("journal: kafka"),
            "f.yaml:1: 'journal: kafka' needs 'kafka.bootstrap', the brokers' host:port");
  EXPECT_EQ(problem("\npublish: file"), "f.yaml:2: 'publish' must be kafka or nowhere");
  EXPECT_EQ(
      problem("journal: kafka\npublish: kafka\n" + kafka),
      "f.yaml:2: 'publish: kafka' is for the embedded journal; with 'journal: kafka' the records are on "
      "the topic already: remove 'publish'");
}

}  // namespace
}  // namespace sandglass::engine::server
