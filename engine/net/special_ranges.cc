#include "engine/net/special_ranges.h"

#include <vector>

#include "engine/base/check.h"

namespace sandglass::engine::net {
namespace {

struct Row {
  const char* range;
  const char* name;
};

constexpr Row rows[] = {
    // clouds' metadata and platform services that lie outside, or deep inside, the ranges below
    {"169.254.169.254/32", "metadata"},
    {"169.254.170.2/32", "metadata"},
    {"100.100.100.200/32", "metadata"},
    {"192.0.0.192/32", "metadata"},
    {"168.63.129.16/32", "metadata"},
    {"fd00:ec2::254/128", "metadata"},
    // IPv4 special-purpose registry
    {"0.0.0.0/8", "this-network"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "carrier-nat"},
    {"127.0.0.0/8", "loopback"},
    {"169.254.0.0/16", "link-local"},
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "ietf-protocols"},
    {"192.0.2.0/24", "documentation"},
    {"192.31.196.0/24", "as112"},
    {"192.52.193.0/24", "amt"},
    {"192.88.99.0/24", "6to4-relay"},
    {"192.168.0.0/16", "private"},
    {"192.175.48.0/24", "as112"},
    {"198.18.0.0/15", "benchmarking"},
    {"198.51.100.0/24", "documentation"},
    {"203.0.113.0/24", "documentation"},
    {"224.0.0.0/4", "multicast"},
    {"255.255.255.255/32", "broadcast"},
    {"240.0.0.0/4", "reserved"},
    // IPv6 special-purpose registry, and forms with an IPv4 address inside
    {"::/128", "unspecified"},
    {"::1/128", "loopback"},
    {"::ffff:0.0.0.0/96", "ipv4-mapped"},
    {"::ffff:0:0:0/96", "ipv4-translated"},
    {"::/96", "ipv4-compatible"},
    {"64:ff9b::/96", "nat64"},
    {"64:ff9b:1::/48", "nat64"},
    {"100::/64", "discard"},
    {"100:0:0:1::/64", "dummy"},
    {"2001::/32", "teredo"},
    {"2001:2::/48", "benchmarking"},
    {"2001:3::/32", "amt"},
    {"2001:4:112::/48", "as112"},
    {"2001:10::/28", "orchid"},
    {"2001:20::/28", "orchid"},
    {"2001:30::/28", "drone-ids"},
    {"2001::/23", "ietf-protocols"},
    {"2001:db8::/32", "documentation"},
    {"2002::/16", "6to4"},
    {"2620:4f:8000::/48", "as112"},
    {"3fff::/20", "documentation"},
    {"5f00::/16", "segment-routing"},
    {"fc00::/7", "unique-local"},
    {"fe80::/10", "link-local"},
    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
    // everything of IPv6 that is not global unicast
    {"::/3", "not-global-unicast"},
    {"4000::/2", "not-global-unicast"},
    {"8000::/1", "not-global-unicast"},
};

std::vector<SpecialRange> make_table() {
  std::vector<SpecialRange> table;
  for (const Row& row : rows) {
    const auto range = parse_range(row.range);
    SG_CHECK(range.has_value(), row.range);
    table.push_back({*range, row.name});
  }
  return table;
}

}  // namespace

std::span<const SpecialRange> special_ranges() {
  static const std::vector<SpecialRange> table = make_table();
  return table;
}

const SpecialRange* special_range_of(const Address& address) {
  for (const SpecialRange& special : special_ranges()) {
    if (special.range.contains(address)) return &special;
  }
  return nullptr;
}

}  // namespace sandglass::engine::net
