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
  network.mutable_effect()->set_max_in_flight(config.effects.max_in_flight);
  network.mutable_effect()->set_max_per_target(config.effects.max_per_target);
  return network.SerializeAsString();
}

}  // namespace sandglass::engine::server
