// CRC-32C (Castagnoli, RFC 3720): finds accidents, not attackers; those are the hash chains' matter.
// Thread rule: a pure function.
#pragma once

#include <cstdint>
#include <string_view>

namespace sandglass::engine::base {

std::uint32_t crc32c(std::string_view data);

}  // namespace sandglass::engine::base
