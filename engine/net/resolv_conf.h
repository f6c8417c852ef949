// The upstream resolvers of the machine (V16).
#pragma once

#include <string_view>
#include <vector>

#include "engine/net/address.h"

namespace sandglass::engine::net {

/// The `nameserver` lines of a resolv.conf, at most three; link-local ones with a zone are left out.
std::vector<Endpoint> read_resolv_conf(std::string_view text);

/// The same, or 127.0.0.1 if it names none, as the C library does.
std::vector<Endpoint> resolvers_of(std::string_view text);

/// Of /etc/resolv.conf; 127.0.0.1 if it names none, as the C library does.
std::vector<Endpoint> machine_resolvers();

}  // namespace sandglass::engine::net
