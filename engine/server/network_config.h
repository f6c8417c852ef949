// The network part of the configuration as children read it: one serialized sandglass.frame.v1.NetworkConfig.
#pragma once

#include <string>

#include "engine/server/config.h"

namespace sandglass::engine::server {

std::string network_config_bytes(const Config& config);

}  // namespace sandglass::engine::server
