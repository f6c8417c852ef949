#include "engine/identity/decider.h"

#include <algorithm>

namespace sandglass::engine::identity {

namespace {

using base::Code;

base::Status decide_create(const State& state, const CreateToken& command, core::TurnWriter<Event>& turn) {
  const Token& token = command.token;
  for (const auto& [what, text] :
       {std::pair{"name", &token.name}, {"tenant", &token.tenant}, {"user", &token.user}}) {
    if (!is_name(*text)) {
      return base::fail(Code::invalid_argument,
                        std::string("the token's ") + what +
                            " must be 1 to 64 letters, digits, '.', '_' or '-', and not "
                            "begin with '.' or '-'");
    }
  }
  if (token.roles == 0 || (token.roles & ~kAllRoles) != 0) {
    return base::fail(Code::invalid_argument, "a token needs at least one known role");
  }
  if (token.hash.is_zero()) return base::fail(Code::invalid_argument, "the token's hash is missing");
  if (state.tokens.contains(token.name)) {
    return base::fail(Code::already_exists,
                      "a token named " + token.name + " exists; names are not used again, choose another");
  }
  const bool hash_known =
      std::ranges::any_of(state.tokens, [&](const auto& entry) { return entry.second.hash == token.hash; });
  if (hash_known)
    return base::fail(Code::already_exists, "this token exists under another name; make a new one");
  Token stored = token;
  stored.created_ms = 0;
  stored.revoked_ms = 0;
  turn.emit(TokenCreated{std::move(stored), command.by});
  return {};
}

base::Status decide_revoke(const State& state, const RevokeToken& command, core::TurnWriter<Event>& turn) {
  const auto found = state.tokens.find(command.name);
  if (found == state.tokens.end()) return base::fail(Code::not_found, "no token is named " + command.name);
  if (found->second.revoked_ms != 0) {
    return base::fail(Code::already_exists, "the token " + command.name + " is revoked already");
  }
  const auto is_other_admin = [&](const auto& entry) {
    return entry.first != command.name && entry.second.revoked_ms == 0 &&
           has(entry.second.roles, Role::admin);
  };
  if (has(found->second.roles, Role::admin) && std::ranges::none_of(state.tokens, is_other_admin)) {
    return base::fail(Code::invalid_argument, "the token " + command.name +
                                                  " is the last one with the role admin: nobody could make "
                                                  "tokens any more; create another admin first");
  }
  turn.emit(TokenRevoked{command.name, command.by});
  return {};
}

}  // namespace

base::Status Decider::decide(const State& state, const Command& command, const core::DecideInput&,
                             core::TurnWriter<Event>& turn) {
  if (const auto* create = std::get_if<CreateToken>(&command)) return decide_create(state, *create, turn);
  return decide_revoke(state, std::get<RevokeToken>(command), turn);
}

void Decider::evolve(State& state, const Event& event, const core::TurnInfo& info) {
  if (const auto* created = std::get_if<TokenCreated>(&event)) {
    Token token = created->token;
    token.created_ms = info.time_ms;
    state.tokens.insert_or_assign(token.name, std::move(token));
    return;
  }
  const auto found = state.tokens.find(std::get<TokenRevoked>(event).name);
  if (found != state.tokens.end()) found->second.revoked_ms = info.time_ms;
}

}  // namespace sandglass::engine::identity
