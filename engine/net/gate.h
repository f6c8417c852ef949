// The one decision: may this host, port and method be reached (before any look-up, FR-163), and which of the
// addresses that it has (after it). Every form of request of the proxy and of the effect executor goes
// through here (FR-158).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/net/host.h"
#include "engine/net/rules.h"
#include "engine/net/verdict.h"

namespace sandglass::engine::net {

/// `network.internal`: this name at this port may have addresses of this range, which would else be refused.
struct InternalTarget {
  HostPort target;
  AddressRange range;
};

/// From the server's configuration only.
struct NetworkSettings {
  std::vector<Endpoint> resolvers;  // never empty once made
  std::vector<InternalTarget> internal;
  std::map<std::string, std::vector<Address>> hosts;  // canonical name → addresses, never asked upstream
  std::vector<Address> own_addresses;                 // beside those of the interfaces
  std::int64_t resolve_timeout_ms = 5000;
  std::int64_t connect_timeout_ms = 5000;
};

/// The answer about the name. Only an allowed one can be dialled.
struct NameDecision {
  HostPort target;
  Verdict verdict;
  std::vector<AddressRange> internal_ranges;
  bool raw_tunnel = false;  // what a tunnel carries need not be TLS for this name
};

/// The answer about its addresses: those that may be dialled, in their order, and the first one that may not.
struct AddressDecision {
  std::vector<Address> allowed;
  std::vector<bool> internal;  // beside `allowed`
  std::optional<Address> refused;
  std::string refused_rule;
};

/// Thread rule: callable from any thread.
class Gate {
 public:
  Gate(NetworkSettings settings, base::Clock& clock);

  /// A sandbox's request: what no rule allows is denied.
  NameDecision decide(const RuleSet& rules, const HostPort& target, std::string_view method) const;
  /// An effect of the engine's own, whose tool and approval were checked before: internal targets, what
  /// `rules` allow, and, with `public_targets`, every name at port 80 or 443.
  NameDecision decide_effect(const RuleSet& rules, bool public_targets, const HostPort& target,
                             std::string_view method) const;

  /// `resolvers`: the name servers that are asked now. They are for the resolver alone and nobody's target,
  /// whatever a rule or the configuration allows (V16).
  AddressDecision check(const NameDecision& name, const std::vector<Address>& addresses,
                        const std::vector<Endpoint>& resolvers = {}) const;

  const NetworkSettings& settings() const { return settings_; }

 private:
  NameDecision allow(const HostPort& target, std::string_view method, std::string rule) const;
  NameDecision deny(const HostPort& target, std::string_view method, std::string reason) const;
  std::vector<AddressRange> internal_ranges(const HostPort& target) const;
  bool is_own(const Address& address) const;

  const NetworkSettings settings_;
  base::Clock& clock_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::set<Address> interfaces_;
  mutable base::MonotonicNs interfaces_read_ns_ = 0;
};

/// A verdict about text that is no host at all.
Verdict malformed_verdict(std::string_view text, std::string_view method, const base::Error& error,
                          const base::Clock& clock);

}  // namespace sandglass::engine::net
