// Hosts, authorities, URLs, ranges, endpoints, rules (ADV-C7, C9, C17, C18, FR-160). Differential: a text
// that the C library reads as an IPv4 number in any of its forms is either refused here or that very address;
// a name that we accept is never a number for anybody.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <string>

#include "engine/base/check.h"
#include "engine/net/address.h"
#include "engine/net/host.h"
#include "engine/net/resolv_conf.h"
#include "engine/net/rules.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::engine::net;

/// What getaddrinfo takes the text for without asking anybody; none: it is a name.
std::optional<Address> as_number(const std::string& text) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(text.c_str(), nullptr, &hints, &list) != 0) return std::nullopt;
  const auto address = Address::from_sockaddr(list->ai_addr);
  freeaddrinfo(list);
  return address;
}

void check_host(const std::string& text) {
  const auto host = parse_host(text);
  if (!host) return;
  const bool bracketed = text.starts_with('[');
  in_addr lenient{};
  const bool number = inet_aton(text.c_str(), &lenient) != 0;
  if (host->literal) {
    SG_CHECK(host->text == host->literal->text(), "a literal's text is not canonical");
    SG_CHECK(parse_host(host->bracketed()) == *host, "a literal reads differently when written again");
    if (!bracketed && number) {
      SG_CHECK(!host->literal->v6 && std::memcmp(&lenient, host->literal->bytes.data(), 4) == 0,
               "the C library dials another address");
    }
    if (const auto known = as_number(host->text)) SG_CHECK(known == host->literal, "getaddrinfo differs");
    return;
  }
  SG_CHECK(!number, "a name is a number for inet_aton");
  SG_CHECK(!as_number(host->text) && !as_number(text), "a name is a number for getaddrinfo");
  SG_CHECK(parse_host(host->text) == *host, "a name reads differently when written again");
}

}  // namespace

FUZZ_TARGET(host_forms) {
  const std::string text(input);
  if (text.find('\0') == std::string::npos) check_host(text);
  SG_CHECK(text.find('\0') == std::string::npos || !parse_host(text), "a NUL in a host");
  if (const auto target = parse_authority(text, 443)) {
    SG_CHECK(parse_authority(target->text(), 0) == *target, "an authority reads differently when written");
  }
  if (const auto url = parse_http_url(text)) {
    SG_CHECK(url->path.starts_with('/') && url->path.find('#') == std::string::npos, "no path");
    SG_CHECK(url->loggable().find('?') == std::string::npos, "a query in a log");  // FR-173
    const auto again = parse_http_url((url->tls ? "https://" : "http://") + url->target.text() + url->path);
    SG_CHECK(again && again->target == url->target && again->path == url->path, "another URL when written");
  }
  if (const auto range = parse_range(text)) {
    SG_CHECK(parse_range(range->text()) == *range && range->contains(range->base), "another range");
  }
  if (const auto end = parse_endpoint(text, 53)) {
    SG_CHECK(parse_endpoint(end->text(), 0) == *end, "another endpoint when written");
  }
  (void)read_resolv_conf(text);
  const std::array rules{RuleText{.host = text}};
  if (const auto set = RuleSet::parse(rules)) {
    const auto other = parse_authority("unrelated.example.net", 443);
    SG_CHECK(text == "unrelated.example.net" || text.starts_with('*') || !set->match(*other, "GET") ||
                 parse_host(text) == other->host,
             "a rule lets an unrelated name out");
  }
}
