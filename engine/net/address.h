// IP addresses and ranges, parsed strictly: only the forms of RFC 5952 and plain dotted quads are addresses.
// Values; no thread rule.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sockaddr;
struct sockaddr_storage;

namespace sandglass::engine::net {

/// An IPv4 address uses the first four bytes. An IPv4-mapped IPv6 address is IPv6 here, and refused by the
/// rules.
struct Address {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};

  std::string text() const;
  /// Fills `out` for connect() or bind(); returns the length.
  unsigned to_sockaddr(std::uint16_t port, sockaddr_storage& out) const;
  static std::optional<Address> from_sockaddr(const sockaddr* address);

  friend auto operator<=>(const Address&, const Address&) = default;
};

/// "192.0.2.1": four decimal numbers without leading zeros. No octal, hex, short or single-number forms.
std::optional<Address> parse_ipv4(std::string_view text);
/// As inet_pton takes it; no zone, no brackets.
std::optional<Address> parse_ipv6(std::string_view text);
std::optional<Address> parse_address(std::string_view text);

/// A CIDR range; `prefix` bits of `base` count.
struct AddressRange {
  Address base;
  unsigned prefix = 0;

  bool contains(const Address& address) const;
  std::string text() const;

  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

/// "10.0.0.0/8"; without "/n" one address. Bits set behind the prefix make it invalid.
std::optional<AddressRange> parse_range(std::string_view text);

/// "192.0.2.53", "192.0.2.53:5353", "2001:db8::1", "[2001:db8::1]:53".
struct Endpoint {
  Address address;
  std::uint16_t port = 0;
  std::string text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
std::optional<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port);

/// Decimal digits only, 1 to 65535, no sign, no leading zero.
std::optional<std::uint16_t> parse_port(std::string_view text);

}  // namespace sandglass::engine::net
