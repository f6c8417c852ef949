// The decider of the identity stream (one per cluster). Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/core/decider.h"
#include "engine/identity/identity.h"

namespace sandglass::engine::identity {

struct TokenCreated {
  Token token;  // created_ms and revoked_ms are the record's business
  std::string by;
  friend bool operator==(const TokenCreated&, const TokenCreated&) = default;
};
struct TokenRevoked {
  std::string name;
  std::string by;
  friend bool operator==(const TokenRevoked&, const TokenRevoked&) = default;
};
using Event = std::variant<TokenCreated, TokenRevoked>;

/// Refused: a bad name, tenant, user or empty role set (invalid_argument), a known name or hash
/// (already_exists).
struct CreateToken {
  Token token;
  std::string by;
};
/// Refused: an unknown name (not_found), one that is revoked already (already_exists).
struct RevokeToken {
  std::string name;
  std::string by;
};
using Command = std::variant<CreateToken, RevokeToken>;

struct Decider {
  using State = identity::State;
  using Event = identity::Event;
  using Command = identity::Command;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& turn);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State&, const core::DecideInput&, std::vector<core::Action>&) {}
  static bool in_flight(const State&) { return false; }
};

/// The one identity stream.
inline core::StreamId identity_stream() {
  return core::StreamId::named(core::StreamKind::identity, "");
}

}  // namespace sandglass::engine::identity
