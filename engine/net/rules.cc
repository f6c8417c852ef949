#include "engine/net/rules.h"

#include <algorithm>
#include <array>

#include "engine/base/text.h"

namespace sandglass::engine::net {
namespace {

using base::Code;
using base::fail;

// Sorted. Registries' second levels and hosting domains where every customer gets a name.
constexpr auto public_suffixes = std::to_array<std::string_view>({
    "ac.jp",
    "ac.uk",
    "appspot.com",
    "azureedge.net",
    "azurewebsites.net",
    "blob.core.windows.net",
    "blogspot.com",
    "cdn.cloudflare.net",
    "cloudapp.net",
    "cloudfront.net",
    "co.at",
    "co.il",
    "co.in",
    "co.jp",
    "co.ke",
    "co.kr",
    "co.nz",
    "co.th",
    "co.uk",
    "co.za",
    "com.ar",
    "com.au",
    "com.br",
    "com.cn",
    "com.co",
    "com.hk",
    "com.mx",
    "com.my",
    "com.ng",
    "com.pl",
    "com.sg",
    "com.tr",
    "com.tw",
    "com.ua",
    "com.vn",
    "core.windows.net",
    "deno.dev",
    "digitaloceanspaces.com",
    "edu.au",
    "edu.cn",
    "fly.dev",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "gov.au",
    "gov.cn",
    "gov.in",
    "gov.uk",
    "herokuapp.com",
    "me.uk",
    "myshopify.com",
    "ne.jp",
    "net.au",
    "net.br",
    "net.cn",
    "netlify.app",
    "ngrok.io",
    "ngrok-free.app",
    "nhs.uk",
    "onrender.com",
    "or.jp",
    "org.au",
    "org.br",
    "org.cn",
    "org.nz",
    "org.uk",
    "pages.dev",
    "r2.dev",
    "readthedocs.io",
    "repl.co",
    "run.app",
    "s3.amazonaws.com",
    "sch.uk",
    "surge.sh",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "wordpress.com",
    "workers.dev",
});

bool has_port(const std::vector<std::uint16_t>& ports, std::uint16_t port) {
  if (ports.empty()) return port == 80 || port == 443;
  return std::ranges::find(ports, port) != ports.end();
}

bool is_method(std::string_view text) {
  return !text.empty() && text.size() <= 32 &&
         std::ranges::all_of(text, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });
}

}  // namespace

bool is_public_suffix(std::string_view name) {
  return name.find('.') == std::string_view::npos ||
         std::ranges::find(public_suffixes, name) != public_suffixes.end() ||
         (name.starts_with("s3.") && name.ends_with(".amazonaws.com"));
}

base::Result<RuleSet::Rule> RuleSet::parse_one(const RuleText& text) {
  Rule rule{.match = {text.id.empty() ? text.host : text.id, text.raw_tunnel},
            .ports = text.ports,
            .methods = text.methods};
  const std::string where =
      "allow rule \"" + base::escape_for_terminal(rule.match.id.substr(0, 128)) + "\": ";
  if (std::ranges::find(rule.ports, 0) != rule.ports.end()) {
    return fail(Code::config_invalid, where + "port 0 is not a port");
  }
  if (!std::ranges::all_of(rule.methods, is_method)) {
    return fail(Code::config_invalid, where + "a method is written in capital letters, like GET");
  }
  if (text.host.find("://") != std::string::npos) {
    return fail(Code::config_invalid, where + "a host is a name or an address, without scheme and path");
  }
  if (text.host.find('/') != std::string::npos) {
    rule.range = parse_range(text.host);
    if (!rule.range)
      return fail(Code::config_invalid, where + "the address range is not valid; write 192.0.2.0/24");
    return rule;
  }
  std::string_view pattern = text.host;
  if (pattern.starts_with("*.")) {
    rule.wildcard = true;
    pattern.remove_prefix(2);
  }
  auto host = parse_host(pattern);
  if (!host) return fail(Code::config_invalid, where + host.error().message);
  if (host->literal) {
    if (rule.wildcard) return fail(Code::config_invalid, where + "an address has no wildcard; write a range");
    rule.range = AddressRange{*host->literal, host->literal->v6 ? 128u : 32u};
    return rule;
  }
  if (rule.wildcard && is_public_suffix(host->text)) {
    return fail(Code::config_invalid,
                where + "the wildcard would cover names of many owners; name the domain below it");
  }
  rule.name = host->text;
  return rule;
}

base::Result<RuleSet> RuleSet::parse(std::span<const RuleText> rules) {
  RuleSet set;
  for (const RuleText& text : rules) {
    auto rule = parse_one(text);
    if (!rule) return std::unexpected(rule.error());
    set.rules_.push_back(std::move(*rule));
  }
  return set;
}

const RuleMatch* RuleSet::match(const HostPort& target, std::string_view method) const {
  const std::string_view name = target.host.text;
  for (const Rule& rule : rules_) {
    if (target.host.literal) {
      if (!rule.range || !rule.range->contains(*target.host.literal)) continue;
    } else if (rule.range) {
      continue;
    } else if (rule.wildcard) {
      const bool below = name.size() > rule.name.size() + 1 && name.ends_with(rule.name) &&
                         name[name.size() - rule.name.size() - 1] == '.';
      if (!below) continue;
    } else if (name != rule.name) {
      continue;
    }
    if (!has_port(rule.ports, target.port)) continue;
    if (!rule.methods.empty() && std::ranges::find(rule.methods, method) == rule.methods.end()) continue;
    return &rule.match;
  }
  return nullptr;
}

bool RuleSet::covers(const Rule& wide, const Rule& narrow) {
  if (narrow.range || wide.range) {
    if (!narrow.range || !wide.range) return false;
    if (narrow.range->prefix < wide.range->prefix || !wide.range->contains(narrow.range->base)) return false;
  } else if (narrow.name != wide.name || narrow.wildcard != wide.wildcard) {
    if (!wide.wildcard) return false;
    const bool same_wildcard = narrow.wildcard && narrow.name == wide.name;
    if (!same_wildcard && !narrow.name.ends_with("." + wide.name)) return false;
  }
  const std::vector<std::uint16_t> usual = {80, 443};
  for (const std::uint16_t port : narrow.ports.empty() ? usual : narrow.ports) {
    if (!has_port(wide.ports, port)) return false;
  }
  if (!wide.methods.empty()) {
    if (narrow.methods.empty()) return false;
    for (const std::string& method : narrow.methods) {
      if (std::ranges::find(wide.methods, method) == wide.methods.end()) return false;
    }
  }
  return wide.match.raw_tunnel || !narrow.match.raw_tunnel;
}

base::Result<bool> RuleSet::covers(const RuleText& asked) const {
  const auto narrow = parse_one(asked);
  if (!narrow) return std::unexpected(narrow.error());
  return std::ranges::any_of(rules_, [&](const Rule& wide) { return covers(wide, *narrow); });
}

}  // namespace sandglass::engine::net
