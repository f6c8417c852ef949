// The address ranges that nothing may be connected to by default: a table in the tree (FR-161, ADV-C10,
// ADV-C11). Source: the IANA registries of special-purpose IPv4 and IPv6 addresses, the transition forms that
// carry an IPv4 address inside, and the metadata addresses of clouds. IPv6 outside 2000::/3 is refused as a
// whole.
#pragma once

#include <span>
#include <string_view>

#include "engine/net/address.h"

namespace sandglass::engine::net {

struct SpecialRange {
  AddressRange range;
  std::string_view name;  // "loopback"; stands in verdicts as "special-range:loopback"
};

/// In the order in which they are asked: narrower ones before the wider that contain them.
std::span<const SpecialRange> special_ranges();

/// Null for an address that is plainly global unicast.
const SpecialRange* special_range_of(const Address& address);

}  // namespace sandglass::engine::net
