// The one configuration file, `sandglass.yaml` in the data folder or --config. Read strictly: an unknown key,
// a wrong type or a bad address is named with file and line. Values set by --set or $SANDGLASS_SET win over
// the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "sandbox-runtime/provider/templates.h"

namespace sandglass::engine::server {

/// A host inside an address range that is otherwise refused; only the server's configuration may name one
/// (N3, V14).
struct InternalTarget {
  std::string host;
  std::vector<std::uint16_t> ports;
  std::vector<std::string> ranges;  // CIDR, "127.0.0.1/32"
  std::string where;                // "sandglass.yaml:12", for messages
};

/// A destination that tasks may ask for their sandboxes; the rest of a name, of ports and of methods stays
/// closed (SPEC N2).
struct AllowedTarget {
  std::string host;                  // "api.example.com", "*.example.com", an address or a range
  std::vector<std::uint16_t> ports;  // empty: 80 and 443
  std::vector<std::string> methods;  // empty: all; a tunnel is CONNECT
};

/// A name whose addresses the operator gives: it is asked of no name server, and the machine's own /etc/hosts
/// is not read (V16). Its addresses are judged like all others.
struct ListedHost {
  std::string name;
  std::vector<std::string> addresses;
};

struct Limits {
  std::uint32_t sandboxes = 10;           // at once, all tenants
  std::uint32_t sandboxes_per_user = 2;   // at once
  std::uint32_t calls_in_flight = 256;    // API calls being answered
  std::uint32_t follows = 128;            // open follow streams
  std::uint64_t request_bytes = 1 << 20;  // one API message
  std::uint64_t upload_bytes = 1ULL << 30;
  std::uint64_t upload_files = 100'000;
};

/// `network.limits`, of one sandbox.
struct EgressSettings {
  std::uint32_t connections = 64;                  // at once, tunnels included
  std::uint64_t body_bytes = 64ULL << 20;          // of one request
  std::uint64_t sent_bytes = 1ULL << 30;           // by one lease in all
  std::uint64_t sent_bytes_per_host = 1ULL << 28;  // by one lease to one host
};

enum class JournalKind : std::uint8_t { embedded, kafka };

/// `kafka`, for `journal: kafka` (M1) and `publish: kafka` (M6).
struct KafkaSettings {
  std::string bootstrap;  // host:port,…
  std::string topic = "history";
  std::vector<std::string> client;  // name=value of the Kafka client: security.protocol, ssl.*, sasl.*
  std::string client_file;          // more of them, one a line, for what is secret
  std::uint32_t publish_interval_ms = 1000;
  std::uint32_t lease_ms = 10'000;   // an engine that is not heard of for so long is taken over from (J27)
  bool take_over = false;            // does not wait for that: the one that serves is fenced
  bool republish_from_view = false;  // what the topic has lost is published again from this folder (J26)
  std::vector<std::string> skip;     // forged messages of the topic (engine/journal/kafka/skip.h)
  bool accept_loss = false;          // a view that does not fit the topic is set aside and made anew (J26)
};

struct EngineSettings {
  std::uint16_t partitions = 8;
  std::uint32_t activation_wait_ms = 1;
  std::uint32_t task_threads = 4;
  std::uint32_t idle_exit_ms = 5000;  // with --exit-when-idle: idle for so long
  bool sync = true;                   // false only for tests that never lose power: nothing is durable then
};

struct EffectSettings {
  std::uint32_t max_in_flight = 64;
  std::uint32_t max_per_target = 8;
};

struct SandboxSettings {
  std::uint64_t disk_floor_mib = 1024;  // free space that disk reservations leave alone (V11)
  std::uint32_t lease_ms = 120'000;     // a run is asked after half of it whether it still needs its sandbox
  std::uint32_t adopt_grace_ms = 30'000;  // for so long sandboxes outlive an engine or host (V1)
  /// By name; the configuration may change each one's limits, what it does on them (V9), and which variables
  /// commands may set.
  std::map<std::string, sandbox_runtime::provider::Template> templates =
      sandbox_runtime::provider::built_in_templates();
};

/// Uids and gids that children get when the supervisor runs as root (V2): egress the first, effect the next,
/// the engine the third (separation.h). They need no passwd entry. 0: all children keep the caller's uid. The
/// default lies below those of sandboxes, which begin at 2^19.
struct ProcessSettings {
  std::uint32_t first_uid = (1U << 19) - 256;
};

/// `workers`: of steps that processes elsewhere carry out (E13).
struct WorkerLimits {
  std::uint32_t lease_ms = 10'000;  // how long a worker that is away, or silent, keeps what it has
  std::map<std::string, double, std::less<>> per_second;  // of queues; not named: no limit
  std::map<std::string, double, std::less<>> weights;     // of tenants; not named: 1
};

struct Config {
  std::string listen_tcp;  // "127.0.0.1:7233"; empty: the Unix socket in the data folder only
  Limits limits;
  std::vector<InternalTarget> internal;
  std::vector<AllowedTarget> allow;
  std::vector<ListedHost> hosts;
  std::vector<std::string> resolvers;  // "address" or "address:port"; empty: the host's resolv.conf (V16)
  EgressSettings egress;
  JournalKind journal = JournalKind::embedded;
  bool publish_on_kafka = false;  // the embedded journal's records go to a topic as well, for readers
  KafkaSettings kafka;
  EngineSettings engine;
  EffectSettings effects;
  WorkerLimits workers;
  SandboxSettings sandbox;
  ProcessSettings processes;
};

/// Parses text; `name` stands for the file in messages. Errors: config_invalid, "name:line: what; what to
/// do", or "the setting key=value: …" for what --set or $SANDGLASS_SET said.
base::Result<Config> parse_config(std::string_view text, const std::string& name,
                                  const std::vector<std::string>& settings = {});

/// Reads the file. A missing file gives the defaults unless `must_exist` (file_unreadable).
base::Result<Config> load_config(const std::string& path, bool must_exist,
                                 const std::vector<std::string>& settings = {});

/// "a.b=c;d=e" → {"a.b=c", "d=e"}: the form of $SANDGLASS_SET.
std::vector<std::string> split_settings(std::string_view text);

}  // namespace sandglass::engine::server
