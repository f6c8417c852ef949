#include "engine/server/network_config.h"

#include "schemas/sandglass/frame/v1/network.pb.h"

namespace sandglass::engine::server {

std::string network_config_bytes(const Config& config) {
  frame::v1::NetworkConfig network;
  for (const auto& resolver : config.resolvers) network.add_resolvers(resolver);
  for (const auto& target : config.internal) {
    for (const auto port : target.ports) {
      for (const auto& range : target.ranges) {
        auto& internal = *network.add_internal();
        internal.set_host(target.host);
        internal.set_port(port);
        internal.set_range(range);
      }
    }
  }
  for (const auto& host : config.hosts) {
    auto& listed = *network.add_hosts();
    listed.set_name(host.name);
    for (const auto& address : host.addresses) listed.add_addresses(address);
  }
  auto& egress = *network.mutable_egress();
  egress.set_max_connections(config.egress.connections);
  egress.set_max_body_bytes(config.egress.body_bytes);
  egress.set_max_lease_bytes(config.egress.sent_bytes);
  egress.set_max_host_bytes(config.egress.sent_bytes_per_host);
  network.mutable_effect()->set_max_in_flight(config.effects.max_in_flight);
  network.mutable_effect()->set_max_per_target(config.effects.max_per_target);
  return network.SerializeAsString();
}

}  // namespace sandglass::engine::server
