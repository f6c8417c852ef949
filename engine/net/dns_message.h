// Reads the answer of a name server: hostile bytes. Bounded in everything that it follows or keeps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/net/address.h"

namespace sandglass::engine::net {

inline constexpr int max_cname_chain = 8;
inline constexpr std::size_t max_addresses = 32;  // of one family; further ones are never used

/// The addresses at the end of the CNAME chain that begins at `name` (canonical text), of the family asked
/// for. Records of other owners, classes and types are ignored. Fails (resolve_failed) on malformed bytes, a
/// loop or a chain that is too long; an empty result is no failure.
base::Result<std::vector<Address>> read_dns_answer(std::string_view message, const std::string& name,
                                                   bool v6);

}  // namespace sandglass::engine::net
