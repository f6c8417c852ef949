#include "engine/net/host.h"

#include <algorithm>

#include "engine/base/text.h"

namespace sandglass::engine::net {
namespace {

using base::Code;
using base::fail;

constexpr std::size_t max_name = 253;
constexpr std::size_t max_label = 63;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::unexpected<base::Error> refused(std::string_view text, std::string_view why) {
  const std::string shown = base::escape_for_terminal(text.substr(0, 128));
  return fail(Code::name_refused, "host \"" + shown + "\" is refused: " + std::string(why));
}

/// True for what a lenient parser would take for an IPv4 number.
bool looks_like_number(std::string_view label) {
  if (std::ranges::all_of(label, is_digit)) return true;
  return label.starts_with("0x") && std::ranges::all_of(label.substr(2), is_hex_digit);
}

/// Null if the lower-case name is well formed, else what is wrong.
const char* name_fault(std::string_view name) {
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view label = name.substr(begin, end - begin);
    if (label.empty()) return "it has an empty label";
    if (label.size() > max_label) return "a label is longer than 63 characters";
    if (label.front() == '-' || label.back() == '-') return "a label begins or ends with a hyphen";
    begin = end + 1;
  }
  return nullptr;
}

}  // namespace

std::string Host::bracketed() const {
  return literal && literal->v6 ? "[" + text + "]" : text;
}

base::Result<Host> parse_host(std::string_view text) {
  if (text.empty()) return refused(text, "it is empty");
  if (text.front() == '[') {
    if (text.back() != ']') return refused(text, "the bracket is not closed at the end");
    const auto address = parse_ipv6(text.substr(1, text.size() - 2));
    if (!address) return refused(text, "only an IPv6 address, without a zone, may stand in brackets");
    return Host{address->text(), address};
  }
  if (text.size() > max_name + 1) return refused(text, "it is longer than 253 characters");
  std::string name;
  name.reserve(text.size());
  for (const char raw : text) {
    const char c = lower(raw);
    const bool fine = (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_' || c == '.';
    if (!fine) {
      return refused(text, static_cast<unsigned char>(raw) >= 0x80
                               ? "it has a character outside ASCII; write the name in its xn-- form"
                               : "it has a character that no host name has");
    }
    name.push_back(c);
  }
  if (name.back() == '.') name.pop_back();
  if (name.size() > max_name) return refused(text, "it is longer than 253 characters");
  if (const char* fault = name_fault(name)) return refused(text, fault);
  if (looks_like_number(std::string_view(name).substr(name.rfind('.') + 1))) {
    const auto address = parse_ipv4(name);
    if (!address) return refused(text, "it ends in a number and is not a plain dotted IPv4 address");
    return Host{address->text(), address};
  }
  return Host{std::move(name), std::nullopt};
}

base::Result<HostPort> parse_authority(std::string_view text, std::uint16_t default_port) {
  std::string_view host = text;
  std::optional<std::string_view> port;
  const std::size_t from = text.starts_with('[') ? text.find(']') : 0;
  if (const std::size_t colon = from == std::string_view::npos ? from : text.find(':', from);
      colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  auto parsed = parse_host(host);
  if (!parsed) return std::unexpected(parsed.error());
  HostPort result{std::move(*parsed), default_port};
  if (port) {
    const auto number = parse_port(*port);
    if (!number) return refused(host, "its port is not a decimal number from 1 to 65535");
    result.port = *number;
  } else if (default_port == 0) {
    return refused(host, "its port is missing");
  }
  return result;
}

std::string HttpUrl::loggable() const {
  const std::string plain = path.substr(0, path.find('?'));
  return (tls ? "https://" : "http://") + target.text() + base::escape_for_terminal(plain);
}

base::Result<HttpUrl> parse_http_url(std::string_view text) {
  // Messages never quote the text: a URL may hold a secret in its user info or query (FR-173).
  for (const char c : text) {
    if (c <= 0x20 || c >= 0x7f) {
      return fail(Code::invalid_argument, "the URL has a space, control or non-ASCII character; encode it");
    }
  }
  HttpUrl url;
  const std::size_t colon = text.find(':');
  std::string scheme(text.substr(0, colon));
  std::ranges::transform(scheme, scheme.begin(), lower);
  if (colon == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return fail(Code::invalid_argument, "the URL's scheme is neither http nor https");
  }
  url.tls = scheme == "https";
  std::string_view rest = text.substr(colon + 1);
  if (!rest.starts_with("//")) return fail(Code::invalid_argument, "the URL has no host");
  rest.remove_prefix(2);
  const std::string_view authority = rest.substr(0, std::min(rest.find_first_of("/?#\\"), rest.size()));
  if (authority.find('@') != std::string_view::npos) {
    return fail(Code::invalid_argument, "the URL has user information; give credentials in a header");
  }
  rest.remove_prefix(authority.size());
  if (rest.find('\\') != std::string_view::npos) {
    return fail(Code::invalid_argument, "the URL has a backslash; encode it");
  }
  auto target = parse_authority(authority, url.tls ? 443 : 80);
  if (!target) return std::unexpected(target.error());
  url.target = std::move(*target);
  rest = rest.substr(0, rest.find('#'));
  url.path = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  return url;
}

}  // namespace sandglass::engine::net
