#include "engine/api/gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace sandglass::engine::api {
namespace {

using base::Code;
using identity::Call;
using identity::Role;

const std::string kToken = "sgt_" + std::string(64, 'a');

std::shared_ptr<const identity::State> with_token(identity::Roles roles, std::int64_t revoked_ms = 0) {
  auto state = std::make_shared<identity::State>();
  state->tokens["ann"] = {.name = "ann",
                          .tenant = "t",
                          .user = "ann",
                          .roles = roles,
                          .hash = base::sha256(kToken),
                          .revoked_ms = revoked_ms};
  return state;
}

TEST(Gate, NobodyPassesBeforeTheIdentitiesAreKnown) {
  Gate gate({});
  EXPECT_EQ(gate.admit("Bearer " + kToken, Call::status, false).error().code, Code::unavailable);
}

// J20: whoever is not authenticated is counted, and nothing else happens.
TEST(Gate, OnlyAValidTokenPassesAndTheOthersAreCounted) {
  Gate gate({});
  gate.set_identities(with_token(static_cast<identity::Roles>(Role::operator_)));
  EXPECT_EQ(gate.admit(std::nullopt, Call::status, false).error().code, Code::unauthenticated);
  for (const std::string& header : std::vector<std::string>{"", "Bearer ", "Bearer x", kToken,
                                                            "bearer " + kToken, "Bearer " + kToken + "0"}) {
    EXPECT_EQ(gate.admit(header, Call::status, false).error().code, Code::unauthenticated) << header;
  }
  const auto pass = gate.admit("Bearer " + kToken, Call::status, false);
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->caller.user, "ann");
  EXPECT_EQ(gate.admit("Bearer " + kToken, Call::decide, false).error().code, Code::permission_denied);
  const auto counters = gate.counters();
  EXPECT_EQ(counters.unauthenticated, 7U);
  EXPECT_EQ(counters.denied, 1U);
  EXPECT_EQ(counters.admitted, 1U);
  EXPECT_TRUE(pass->still_valid());
  gate.set_identities(with_token(static_cast<identity::Roles>(Role::operator_), 5));
  EXPECT_EQ(pass->still_valid().error().code, Code::unauthenticated);
  EXPECT_EQ(gate.admit("Bearer " + kToken, Call::status, false).error().code, Code::unauthenticated);
}

TEST(Gate, PlacesAreLimitedByKindAndGivenBack) {
  Gate gate({.calls_in_flight = 2, .streams = 1});
  gate.set_identities(with_token(identity::kAllRoles));
  const std::string header = "Bearer " + kToken;
  {
    const auto one = gate.admit(header, Call::status, false);
    const auto two = gate.admit(header, Call::status, false);
    const auto stream = gate.admit(header, Call::follow_run, true);
    EXPECT_TRUE(one && two && stream);
    EXPECT_EQ(gate.admit(header, Call::status, false).error().code, Code::overloaded);
    EXPECT_EQ(gate.admit(header, Call::follow_run, true).error().code, Code::overloaded);
    EXPECT_EQ(gate.counters().in_flight, 3U);
  }
  EXPECT_EQ(gate.counters().in_flight, 0U);
  auto pass = gate.admit(header, Call::status, false);
  ASSERT_TRUE(pass);
  const Gate::Pass moved = std::move(*pass);
  EXPECT_EQ(gate.counters().in_flight, 1U);
}

}  // namespace
}  // namespace sandglass::engine::api
