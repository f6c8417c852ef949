#include "engine/net/codec/network_codec.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "engine/net/resolv_conf.h"

namespace sandglass::engine::net::codec {
namespace {

using base::Code;
using base::fail;

std::unexpected<base::Error> invalid(const std::string& where, const std::string& text,
                                     const std::string& what) {
  return fail(Code::config_invalid, where + " \"" + base::escape_for_terminal(text) + "\": " + what);
}

/// As parse_host, and an IPv6 literal may stand without brackets.
base::Result<Host> configured_host(const std::string& text) {
  if (const auto address = parse_ipv6(text)) return Host{address->text(), address};
  return parse_host(text);
}

base::Status add_internal(const pb::InternalTarget& entry, NetworkSettings& settings) {
  auto host = configured_host(entry.host());
  if (!host) return invalid("network.internal", entry.host(), host.error().message);
  if (entry.port() < 1 || entry.port() > 65535) {
    return invalid("network.internal", entry.host(), "port must be a number from 1 to 65535");
  }
  const auto range = parse_range(entry.range());
  if (!range)
    return invalid("network.internal", entry.host(), "range must be a CIDR range like 127.0.0.1/32");
  settings.internal.push_back({{std::move(*host), static_cast<std::uint16_t>(entry.port())}, *range});
  return {};
}

base::Status add_static(const pb::StaticHost& entry, NetworkSettings& settings) {
  auto host = configured_host(entry.name());
  if (!host || host->literal) return invalid("network.hosts", entry.name(), "it is not a host name");
  std::vector<Address>& addresses = settings.hosts[host->text];
  for (const std::string& text : entry.addresses()) {
    const auto address = parse_address(text);
    if (!address) return invalid("network.hosts", text, "it is not an IP address");
    addresses.push_back(*address);
  }
  if (addresses.empty()) return invalid("network.hosts", entry.name(), "it has no address");
  return {};
}

}  // namespace

base::Result<NetworkSettings> to_settings(const pb::NetworkConfig& config) {
  NetworkSettings settings;
  for (const std::string& text : config.resolvers()) {
    const auto endpoint = parse_endpoint(text, 53);
    if (!endpoint)
      return invalid("network.resolvers", text, "write an IP address, with :port if it is not 53");
    settings.resolvers.push_back(*endpoint);
  }
  if (settings.resolvers.empty()) settings.resolvers = machine_resolvers();
  for (const auto& entry : config.internal()) {
    if (auto status = add_internal(entry, settings); !status) return std::unexpected(status.error());
  }
  for (const auto& entry : config.hosts()) {
    if (auto status = add_static(entry, settings); !status) return std::unexpected(status.error());
  }
  for (const std::string& text : config.own_addresses()) {
    const auto address = parse_address(text);
    if (!address) return invalid("network.own_addresses", text, "it is not an IP address");
    settings.own_addresses.push_back(*address);
  }
  if (config.resolve_timeout_ms() > 0) settings.resolve_timeout_ms = config.resolve_timeout_ms();
  if (config.connect_timeout_ms() > 0) settings.connect_timeout_ms = config.connect_timeout_ms();
  return settings;
}

base::Result<RuleSet> to_rules(const google::protobuf::RepeatedPtrField<pb::AllowRule>& rules) {
  std::vector<RuleText> texts;
  for (const auto& rule : rules) {
    RuleText text{
        .id = rule.id(), .host = rule.host(), .ports = {}, .methods = {}, .raw_tunnel = rule.raw_tunnel()};
    for (const std::uint32_t port : rule.ports()) {
      // A number that is too large becomes 0, which RuleSet refuses with the rule's name.
      text.ports.push_back(port > 65535 ? 0 : static_cast<std::uint16_t>(port));
    }
    text.methods.assign(rule.methods().begin(), rule.methods().end());
    texts.push_back(std::move(text));
  }
  return RuleSet::parse(texts);
}

pb::NetworkVerdict to_frame(const Verdict& verdict) {
  pb::NetworkVerdict frame;
  frame.set_sandbox(verdict.sandbox);
  frame.set_token(verdict.token);
  frame.set_run(verdict.run);
  frame.set_host(verdict.host);
  frame.set_port(verdict.port);
  frame.set_method(verdict.method);
  frame.set_allowed(verdict.allowed);
  frame.set_rule(verdict.rule);
  frame.set_internal(verdict.internal);
  frame.set_address(verdict.address);
  frame.set_reason(verdict.reason);
  frame.set_time_ms(verdict.time_ms);
  frame.set_opaque(verdict.opaque);
  frame.set_code(static_cast<std::uint32_t>(verdict.code));
  frame.set_untold(verdict.untold);
  return frame;
}

Verdict from_frame(const pb::NetworkVerdict& frame) {
  return {.sandbox = frame.sandbox(),
          .token = frame.token(),
          .run = frame.run(),
          .host = frame.host(),
          .port = static_cast<std::uint16_t>(frame.port()),
          .method = frame.method(),
          .allowed = frame.allowed(),
          .rule = frame.rule(),
          .internal = frame.internal(),
          .address = frame.address(),
          .reason = frame.reason(),
          .time_ms = frame.time_ms(),
          .opaque = frame.opaque(),
          .code = static_cast<base::Code>(frame.code()),
          .untold = frame.untold()};
}

base::Result<pb::NetworkConfig> read_config(int fd) {
  constexpr std::size_t at_most = 1 << 20;
  std::string bytes;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(Code::io_error, std::string("the configuration descriptor: ") + std::strerror(errno));
    if (got == 0) break;
    bytes.append(buffer, static_cast<std::size_t>(got));
    if (bytes.size() > at_most) return fail(Code::config_invalid, "the network configuration is over 1 MiB");
  }
  pb::NetworkConfig config;
  if (!config.ParseFromString(bytes))
    return fail(Code::config_invalid, "the network configuration is malformed");
  return config;
}

bool name_resolvers(pb::NetworkConfig& config) {
  if (!config.resolvers().empty()) return false;
  for (const Endpoint& resolver : machine_resolvers()) config.add_resolvers(resolver.text());
  return true;
}

base::Result<int> make_config_fd(const pb::NetworkConfig& config) {
  const std::string bytes = config.SerializeAsString();
  base::UniqueFd fd(::memfd_create("sandglass-network", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made =
      fd && ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0;
  if (!made)
    return fail(Code::io_error, std::string("the configuration descriptor: ") + std::strerror(errno));
  return fd.release();
}

}  // namespace sandglass::engine::net::codec
