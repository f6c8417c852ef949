// The proxy's sandboxes: listeners, the lease that each is under, and their connections. A connection's
// identity is the listener that it came through, and the lease of that moment (V15, ADV-C31). Nothing is kept
// when it ends. Thread rule: everything on the thread that runs the io_context.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/egress/session.h"

namespace sandglass::sandbox_runtime::egress {

class Proxy {
 public:
  /// The context outlives the proxy.
  explicit Proxy(const ProxyContext& context);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// A listening stream socket, opened inside the sandbox. Replaces a former one of the same sandbox, whose
  /// connections and lease end.
  engine::base::Status add_listener(const std::string& sandbox, engine::base::UniqueFd listener);
  engine::base::Status remove_listener(const std::string& sandbox);

  /// Errors: not_found (no listener), lease_fenced (a token not above every former one).
  engine::base::Status begin_lease(Lease lease);
  engine::base::Status set_rules(const std::string& sandbox, std::uint64_t token, engine::net::RuleSet rules);
  /// Its connections are closed when this returns. An ended lease is fine, with zero counters.
  engine::base::Result<ProxyCounters> end_lease(const std::string& sandbox, std::uint64_t token);

  /// Sums of everything since the start, and the connections that are open now.
  ProxyCounters counters() const;
  /// Forgets all sandboxes: the host has gone.
  void clear();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sandglass::sandbox_runtime::egress
