#include "engine/identity/identity.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandglass::engine::identity {

namespace {

constexpr std::array<std::pair<Role, std::string_view>, 6> kNames = {{{Role::admin, "admin"},
                                                                      {Role::operator_, "operator"},
                                                                      {Role::approver, "approver"},
                                                                      {Role::auditor, "auditor"},
                                                                      {Role::user, "user"},
                                                                      {Role::worker, "worker"}}};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

}  // namespace

std::string_view name_of(Role role) {
  for (const auto& [known, name] : kNames) {
    if (known == role) return name;
  }
  return "unknown";
}

std::optional<Role> parse_role(std::string_view text) {
  for (const auto& [role, name] : kNames) {
    if (name == text) return role;
  }
  return std::nullopt;
}

std::vector<std::string> role_names(Roles roles) {
  std::vector<std::string> names;
  for (const auto& [role, name] : kNames) {
    if (has(roles, role)) names.emplace_back(name);
  }
  return names;
}

std::optional<Caller> State::find(const base::Hash256& hash) const {
  for (const auto& [name, token] : tokens) {
    if (token.hash == hash && token.revoked_ms == 0)
      return Caller{name, token.tenant, token.user, token.roles};
  }
  return std::nullopt;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, is_name_character);
}

std::string token_text(std::string_view random_bytes) {
  return std::string(kTokenPrefix) + base::to_hex(random_bytes);
}

std::optional<base::Hash256> token_hash(std::string_view text) {
  if (text.size() != kTokenPrefix.size() + 2 * kTokenBytes || !text.starts_with(kTokenPrefix))
    return std::nullopt;
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::ranges::all_of(text.substr(kTokenPrefix.size()), is_hex)) return std::nullopt;
  return base::sha256(text);
}

}  // namespace sandglass::engine::identity
