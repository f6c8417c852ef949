// The one parser of host names. Rules are matched, names resolved and addresses dialled on its output only,
// so that no two parts can read one text differently (FR-160, ADV-C7, C9, C17, C18).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/net/address.h"

namespace sandglass::engine::net {

/// A canonical host: a lower-case DNS name without a dot at the end, or an address literal.
struct Host {
  std::string text;  // name, or the literal's canonical text without brackets
  std::optional<Address> literal;

  /// With brackets around an IPv6 literal.
  std::string bracketed() const;

  friend bool operator==(const Host&, const Host&) = default;
};

/// Refuses (name_refused): anything but letters, digits, '-', '_' and '.'; empty or over-long labels; names
/// whose last label is a number or 0x… and which are not a plain dotted quad (decimal, octal, hex, short
/// forms); zone ids. Non-ASCII names are refused: write them as xn--. One dot at the end and the letters'
/// case do not matter. An IPv6 literal must stand in brackets.
base::Result<Host> parse_host(std::string_view text);

struct HostPort {
  Host host;
  std::uint16_t port = 0;

  /// "host:port"
  std::string text() const { return host.bracketed() + ":" + std::to_string(port); }

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// "host:port". Without a port `default_port` counts; 0 there means that the port is required.
base::Result<HostPort> parse_authority(std::string_view text, std::uint16_t default_port);

struct HttpUrl {
  bool tls = false;
  HostPort target;
  std::string path;  // "/path?query", never empty, no fragment

  /// What may be logged: scheme, host, port and path; no query (FR-173).
  std::string loggable() const;
};

/// http and https only; user info is refused; a fragment is dropped. Every byte must be printable ASCII.
base::Result<HttpUrl> parse_http_url(std::string_view text);

}  // namespace sandglass::engine::net
