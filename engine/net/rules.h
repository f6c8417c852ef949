// Allow rules of a policy: which names, ports and methods. No rule, no way out (ADV-C5). Values, immutable
// after load.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/net/address.h"
#include "engine/net/host.h"

namespace sandglass::engine::net {

/// What the rule that matched says beside "yes".
struct RuleMatch {
  std::string id;
  bool raw_tunnel = false;
};

/// A rule as somebody wrote it.
struct RuleText {
  std::string id;    // empty: the host pattern
  std::string host;  // "api.example.com", "*.example.com", "192.0.2.1", "[2001:db8::1]", "198.41.0.0/24"
  std::vector<std::uint16_t> ports;  // empty: 80 and 443
  std::vector<std::string> methods;  // empty: all; a tunnel is CONNECT
  bool raw_tunnel = false;           // tunnels need not be TLS for this name
};

class RuleSet {
 public:
  RuleSet() = default;

  /// Refuses the whole set with a message that names the rule: a malformed host, port 0, a bare "*", a
  /// wildcard on a public suffix or on fewer than two labels ("*.com", "*.github.io"; ADV-C19).
  static base::Result<RuleSet> parse(std::span<const RuleText> rules);

  /// Of the first rule that allows this; null: denied.
  const RuleMatch* match(const HostPort& target, std::string_view method) const;

  /// True if one of the rules allows everything that `asked` would: whoever asks for less than these rules
  /// may have it. config_invalid if `asked` is no valid rule.
  base::Result<bool> covers(const RuleText& asked) const;

  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    RuleMatch match;
    std::string name;  // exact name, or the suffix behind "*."
    bool wildcard = false;
    std::optional<AddressRange> range;  // rules for literals
    std::vector<std::uint16_t> ports;
    std::vector<std::string> methods;
  };
  static base::Result<Rule> parse_one(const RuleText& text);
  static bool covers(const Rule& wide, const Rule& narrow);

  std::vector<Rule> rules_;
};

/// True for names under which different owners register names ("co.uk", "github.io"): a small table of the
/// common ones beside every single label.
bool is_public_suffix(std::string_view name);

}  // namespace sandglass::engine::net
