// One client connection of a sandbox, and what it reaches: plain requests in absolute form and tunnels,
// through one decision (FR-158). Bound to the lease under which it was accepted (V15). Thread rule:
// everything on the thread that runs the io_context.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/net/dialer.h"
#include "engine/net/gate.h"
#include "engine/net/rules.h"
#include "engine/net/verdict.h"
#include "sandbox-runtime/egress/http_head.h"
#include "sandbox-runtime/egress/verdict_log.h"

namespace boost::asio {
class io_context;
}

namespace sandglass::sandbox_runtime::egress {

struct ProxyLimits {
  std::uint32_t max_connections = 64;  // of one sandbox
  HeadLimits head;
  std::uint64_t max_body_bytes = 64ULL << 20;
  std::uint64_t max_lease_bytes = 1ULL << 30;  // sent out by one lease
  std::uint64_t max_host_bytes = 1ULL << 28;   // sent out by one lease to one host (ADV-C30)
  std::int64_t head_timeout_ms = 10'000;
  std::int64_t request_timeout_ms = 600'000;
  std::int64_t idle_timeout_ms = 60'000;
  std::int64_t tunnel_timeout_ms = 3'600'000;
};

struct ProxyCounters {
  std::uint64_t accepted = 0;
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  std::uint64_t open_connections = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
};

/// One sandbox in one hand. Shared by its connections; `rules` may be replaced while they live.
struct Lease {
  std::string sandbox;
  std::uint64_t token = 0;
  std::string run;
  std::string policy;
  engine::net::RuleSet rules;
  ProxyCounters counters;
  std::map<std::string, std::uint64_t> sent_to;  // bytes by canonical host
  VerdictLog log;
};

struct Usage {
  std::string sandbox;
  std::uint64_t token = 0;
  engine::net::HostPort target;
  std::string method;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  std::int64_t duration_ms = 0;
  int http_status = 0;
};

/// What every connection uses; outlives them.
struct ProxyContext {
  boost::asio::io_context& io;
  const engine::net::Gate& gate;
  engine::net::Dialer& dialer;
  engine::base::Clock& clock;
  ProxyLimits limits;
  std::function<void(const engine::net::Verdict&)> on_verdict;
  std::function<void(const Usage&)> on_usage;
};

class Session {
 public:
  virtual ~Session() = default;
  /// Both ends are closed when this returns; nothing more goes either way.
  virtual void close() = 0;
  /// Closes if the lease's rules no longer allow what is going on (ADV-C33).
  virtual void recheck() = 0;
};

/// Takes an accepted connection. `on_end` is called once, from the event loop, when it has closed.
std::shared_ptr<Session> start_session(const ProxyContext& context, engine::base::UniqueFd connection,
                                       std::shared_ptr<Lease> lease, std::function<void(Session*)> on_end);

}  // namespace sandglass::sandbox_runtime::egress
