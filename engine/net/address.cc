#include "engine/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace sandglass::engine::net {

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN];
  ::inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), buffer, sizeof buffer);
  return buffer;
}

unsigned Address::to_sockaddr(std::uint16_t port, sockaddr_storage& out) const {
  std::memset(&out, 0, sizeof out);
  if (v6) {
    auto& address = reinterpret_cast<sockaddr_in6&>(out);
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    std::memcpy(&address.sin6_addr, bytes.data(), 16);
    return sizeof address;
  }
  auto& address = reinterpret_cast<sockaddr_in&>(out);
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  std::memcpy(&address.sin_addr, bytes.data(), 4);
  return sizeof address;
}

std::optional<Address> Address::from_sockaddr(const sockaddr* address) {
  Address result;
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return result;
  }
  if (address->sa_family == AF_INET6) {
    result.v6 = true;
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    return result;
  }
  return std::nullopt;
}

std::optional<Address> parse_ipv4(std::string_view text) {
  Address result;
  std::size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (at >= text.size() || text[at++] != '.')) return std::nullopt;
    const std::size_t begin = at;
    unsigned value = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && at - begin < 3) {
      value = value * 10 + static_cast<unsigned>(text[at++] - '0');
    }
    if (at == begin || value > 255 || (text[begin] == '0' && at - begin > 1)) return std::nullopt;
    result.bytes[static_cast<std::size_t>(part)] = static_cast<std::uint8_t>(value);
  }
  if (at != text.size()) return std::nullopt;
  return result;
}

std::optional<Address> parse_ipv6(std::string_view text) {
  Address result;
  result.v6 = true;
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) return std::nullopt;
  char buffer[INET6_ADDRSTRLEN] = {};
  text.copy(buffer, text.size());
  if (::inet_pton(AF_INET6, buffer, result.bytes.data()) != 1) return std::nullopt;
  return result;
}

std::optional<Address> parse_address(std::string_view text) {
  return text.find(':') == std::string_view::npos ? parse_ipv4(text) : parse_ipv6(text);
}

bool AddressRange::contains(const Address& address) const {
  if (address.v6 != base.v6) return false;
  const std::size_t whole = prefix / 8;
  if (std::memcmp(address.bytes.data(), base.bytes.data(), whole) != 0) return false;
  const unsigned rest = prefix % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xFF << (8 - rest));
  return (address.bytes[whole] & mask) == (base.bytes[whole] & mask);
}

std::string AddressRange::text() const {
  return base.text() + "/" + std::to_string(prefix);
}

std::optional<AddressRange> parse_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto base = parse_address(text.substr(0, slash));
  if (!base) return std::nullopt;
  const unsigned bits = base->v6 ? 128 : 32;
  AddressRange range{*base, bits};
  if (slash == std::string_view::npos) return range;
  const std::string_view digits = text.substr(slash + 1);
  if (digits.empty() || digits.size() > 3 || (digits[0] == '0' && digits.size() > 1)) return std::nullopt;
  range.prefix = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    range.prefix = range.prefix * 10 + static_cast<unsigned>(digit - '0');
  }
  if (range.prefix > bits) return std::nullopt;
  for (unsigned bit = range.prefix; bit < bits; ++bit) {
    if (base->bytes[bit / 8] & (0x80 >> (bit % 8))) return std::nullopt;
  }
  return range;
}

std::string Endpoint::text() const {
  return (address.v6 ? "[" + address.text() + "]" : address.text()) + ":" + std::to_string(port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port) {
  Endpoint endpoint{{}, default_port};
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    if (close + 1 < text.size()) {
      if (text[close + 1] != ':') return std::nullopt;
      port = text.substr(close + 2);
    }
    if (!parse_ipv6(host)) return std::nullopt;
  } else if (const std::size_t colon = text.find(':');
             colon != std::string_view::npos && colon == text.rfind(':')) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto address = parse_address(host);
  if (!address) return std::nullopt;
  endpoint.address = *address;
  if (port) {
    const auto number = parse_port(*port);
    if (!number) return std::nullopt;
    endpoint.port = *number;
  }
  return endpoint;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || text[0] == '0') return std::nullopt;
  unsigned value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(digit - '0');
  }
  if (value > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(value);
}

}  // namespace sandglass::engine::net
