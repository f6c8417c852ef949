#include "engine/net/gate.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>

#include "engine/base/text.h"
#include "engine/net/special_ranges.h"

namespace sandglass::engine::net {
namespace {

constexpr base::MonotonicNs interfaces_fresh_ns = 5'000'000'000;

std::set<Address> read_interfaces() {
  std::set<Address> result;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (const auto address = Address::from_sockaddr(entry->ifa_addr)) result.insert(*address);
  }
  ::freeifaddrs(list);
  return result;
}

}  // namespace

Gate::Gate(NetworkSettings settings, base::Clock& clock) : settings_(std::move(settings)), clock_(clock) {}

NameDecision Gate::allow(const HostPort& target, std::string_view method, std::string rule) const {
  NameDecision decision{.target = target};
  decision.internal_ranges = internal_ranges(target);
  decision.verdict = Verdict{.host = target.host.text,
                             .port = target.port,
                             .method = std::string(method),
                             .allowed = true,
                             .rule = std::move(rule),
                             .time_ms = clock_.wall_ms(),
                             .opaque = method == "CONNECT"};
  return decision;
}

NameDecision Gate::deny(const HostPort& target, std::string_view method, std::string reason) const {
  return {.target = target,
          .verdict = {.host = target.host.text,
                      .port = target.port,
                      .method = std::string(method),
                      .rule = "default-deny",
                      .reason = std::move(reason),
                      .time_ms = clock_.wall_ms(),
                      .code = base::Code::policy_denied},
          .internal_ranges = {}};
}

std::vector<AddressRange> Gate::internal_ranges(const HostPort& target) const {
  std::vector<AddressRange> ranges;
  for (const InternalTarget& internal : settings_.internal) {
    if (internal.target == target) ranges.push_back(internal.range);
  }
  return ranges;
}

NameDecision Gate::decide(const RuleSet& rules, const HostPort& target, std::string_view method) const {
  if (const RuleMatch* rule = rules.match(target, method)) {
    NameDecision decision = allow(target, method, rule->id);
    decision.raw_tunnel = rule->raw_tunnel;
    return decision;
  }
  return deny(target, method,
              "no rule of the sandbox's policy allows " + std::string(method) + " to " + target.text());
}

NameDecision Gate::decide_effect(const RuleSet& rules, bool public_targets, const HostPort& target,
                                 std::string_view method) const {
  if (const RuleMatch* rule = rules.match(target, method)) return allow(target, method, rule->id);
  if (!internal_ranges(target).empty()) return allow(target, method, "network.internal");
  const bool usual_port = target.port == 80 || target.port == 443;
  if (public_targets && !target.host.literal && usual_port) return allow(target, method, "public");
  return deny(target, method,
              target.text() +
                  " is not a public name at port 80 or 443; an operator may name it under network.internal");
}

bool Gate::is_own(const Address& address) const {
  if (std::ranges::find(settings_.own_addresses, address) != settings_.own_addresses.end()) return true;
  const std::lock_guard lock(mutex_);
  const base::MonotonicNs now = clock_.monotonic_ns();
  if (interfaces_read_ns_ == 0 || now - interfaces_read_ns_ > interfaces_fresh_ns) {
    interfaces_ = read_interfaces();
    interfaces_read_ns_ = now;
  }
  return interfaces_.contains(address);
}

AddressDecision Gate::check(const NameDecision& name, const std::vector<Address>& addresses,
                            const std::vector<Endpoint>& resolvers) const {
  constexpr std::uint16_t port_dns = 53;
  constexpr std::uint16_t port_dns_over_tls = 853;
  const std::uint16_t port = name.target.port;
  const auto refuse = [](AddressDecision& decision, const Address& address, std::string rule) {
    if (decision.refused) return;
    decision.refused = address;
    decision.refused_rule = std::move(rule);
  };
  AddressDecision decision;
  for (const Address& address : addresses) {
    if (std::ranges::any_of(resolvers, [&](const Endpoint& resolver) {
          return resolver.address == address &&
                 (port == resolver.port || port == port_dns || port == port_dns_over_tls);
        })) {
      refuse(decision, address, "resolver");
      continue;
    }
    const auto has = [&](const AddressRange& range) { return range.contains(address); };
    if (std::ranges::any_of(name.internal_ranges, has)) {
      decision.allowed.push_back(address);
      decision.internal.push_back(true);
      continue;
    }
    const SpecialRange* special = special_range_of(address);
    if (special == nullptr && !is_own(address)) {
      decision.allowed.push_back(address);
      decision.internal.push_back(false);
      continue;
    }
    refuse(decision, address, special ? "special-range:" + std::string(special->name) : "own-address");
  }
  return decision;
}

Verdict malformed_verdict(std::string_view text, std::string_view method, const base::Error& error,
                          const base::Clock& clock) {
  return {.host = base::escape_for_terminal(text.substr(0, 200)).substr(0, 255),
          .method = base::escape_for_terminal(method.substr(0, 32)),
          .rule = "malformed",
          .reason = error.message,
          .time_ms = clock.wall_ms(),
          .code = error.code};
}

}  // namespace sandglass::engine::net
