#include "activities/policy/policy.h"

#include <algorithm>
#include <charconv>

namespace sandglass::activities::policy {

namespace {

bool same_origin(std::string_view allowed, std::string_view target) {
  const auto origin = origin_of(allowed);
  return origin && *origin == target;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::unexpected<base::Error> bad_url(std::string_view why) {
  return base::fail(base::Code::invalid_argument,
                    "the URL " + std::string(why) + "; give one such as https://host/path");
}

bool is_host(std::string_view host) {
  const bool literal = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view inner = literal ? host.substr(1, host.size() - 2) : host;
  return !inner.empty() && inner.size() <= 253 && std::ranges::all_of(inner, [&](char c) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    return plain || (literal && c == ':');
  });
}

}  // namespace

base::Result<std::string> origin_of(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) return bad_url("has no scheme");
  const std::string scheme = lower(url.substr(0, colon));
  if (scheme != "http" && scheme != "https") return bad_url("is neither http nor https");
  const std::string_view rest = url.substr(colon + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#\\"));
  if (authority.find('@') != std::string_view::npos)
    return bad_url("holds user info; use a credential reference");
  const std::size_t bracket = authority.rfind(']');
  const std::size_t port_at = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string host = lower(authority.substr(0, port_at));
  if (!is_host(host)) return bad_url("has no valid host name");
  if (port_at == std::string_view::npos) return scheme + "://" + host;
  const std::string_view digits = authority.substr(port_at + 1);
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 65'535) {
    return bad_url("has no valid port");
  }
  if (port == (scheme == "http" ? 80U : 443U)) return scheme + "://" + host;
  return scheme + "://" + host + ":" + std::to_string(port);
}

Decision decide(const Policy& policy, const Action& action) {
  const auto found = policy.tools.find(action.tool);
  const ToolRule rule = found == policy.tools.end() ? ToolRule{} : found->second;
  const int level = std::clamp(std::max(action.declared_level, rule.level), 0, kMaxLevel);
  if (level <= 1)
    return {Verdict::allow, level, level == 0 ? "level 0: read-only" : "level 1: inside the sandbox"};
  if (level == 3 && !rule.grant) {
    return {Verdict::deny, level,
            "level 3 is denied unless the task grants it: write tools: {" + action.tool + ": {grant: true}}"};
  }
  const bool listed =
      action.target.empty() || std::ranges::any_of(policy.targets, [&](const std::string& target) {
        return same_origin(target, action.target);
      });
  if (!listed) {
    return {Verdict::deny, level,
            "the target " + action.target + " is not on the task's list; add it under \"targets\""};
  }
  if (level == 3) return {Verdict::ask, level, "level 3 is always asked for"};
  if (policy.ask_at_level_2) return {Verdict::ask, level, "level 2, and the task says: ask"};
  return {Verdict::allow, level, "level 2, the target is on the task's list, and the task says: allow"};
}

}  // namespace sandglass::activities::policy
