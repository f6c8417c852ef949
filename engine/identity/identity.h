// Who may call: tokens by hash, roles, and the identity that a valid token stands for. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"

namespace sandglass::engine::identity {

/// Roles of a token; bits are stored and never used again for another role.
enum class Role : std::uint32_t {
  admin = 1U << 0,      // tokens, and every tenant's runs
  operator_ = 1U << 1,  // the tenant's runs: start, signal, cancel, terminate, resume, read
  approver = 1U << 2,   // decides approvals; no other role implies it
  auditor = 1U << 3,    // reads histories and the order of partitions, changes nothing
  user = 1U << 4,       // own runs only
  worker = 1U << 5,     // carries out steps
};

/// A set of roles.
using Roles = std::uint32_t;
inline constexpr Roles kAllRoles = (1U << 6) - 1;
constexpr Roles operator|(Role a, Role b) {
  return static_cast<Roles>(a) | static_cast<Roles>(b);
}
constexpr Roles operator|(Roles a, Role b) {
  return a | static_cast<Roles>(b);
}
constexpr bool has(Roles roles, Role role) {
  return (roles & static_cast<Roles>(role)) != 0;
}

/// "operator" for Role::operator_.
std::string_view name_of(Role role);
std::optional<Role> parse_role(std::string_view text);
std::vector<std::string> role_names(Roles roles);

struct Token {
  std::string name;
  std::string tenant;
  std::string user;
  Roles roles = 0;
  base::Hash256 hash;
  std::int64_t created_ms = 0;
  std::int64_t revoked_ms = 0;  // 0: valid

  friend bool operator==(const Token&, const Token&) = default;
};

/// Who calls. Made only from a valid token.
struct Caller {
  std::string token_name;
  std::string tenant;
  std::string user;
  Roles roles = 0;
};

/// State of the identity stream. Names of revoked tokens are not used again.
struct State {
  std::map<std::string, Token, std::less<>> tokens;  // by name

  /// The caller behind the token whose SHA-256 this is; nothing for an unknown or revoked one.
  std::optional<Caller> find(const base::Hash256& hash) const;
};

/// Longest name, tenant or user.
inline constexpr std::size_t kMaxNameBytes = 64;
/// 1..kMaxNameBytes of letters, digits, '.', '_', '-', not beginning with '.' or '-': names become file
/// names.
bool is_name(std::string_view text);

/// Number of random bytes of a token, and how it is written: "sgt_" and 64 hex digits.
inline constexpr std::size_t kTokenBytes = 32;
inline constexpr std::string_view kTokenPrefix = "sgt_";
std::string token_text(std::string_view random_bytes);
/// SHA-256 of the token's text; nothing if it is not shaped as one.
std::optional<base::Hash256> token_hash(std::string_view text);

}  // namespace sandglass::engine::identity
