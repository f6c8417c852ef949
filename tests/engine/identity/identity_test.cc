#include <gtest/gtest.h>

#include "engine/identity/access.h"
#include "engine/identity/codec/codec.h"
#include "engine/identity/decider.h"

namespace sandglass::engine::identity {
namespace {

using codec::IdentityCodec;

constexpr core::DecideInput kInput{.seq = 1, .now_ms = 1000, .epoch = 1};

Token token_named(std::string name, Roles roles, char fill = 'a') {
  return {.name = std::move(name),
          .tenant = "default",
          .user = "ann",
          .roles = roles,
          .hash = base::sha256(std::string(4, fill))};
}

/// Decides, evolves, and checks that a state that went through its bytes evolves the same (DESIGN §9).
base::Status apply(State& state, const Command& command, std::int64_t now_ms = 1000) {
  core::Turn turn;
  core::TurnWriter<Event> writer(turn, kInput);
  if (auto decided = Decider::decide(state, command, kInput, writer); !decided) return decided;
  State replayed = IdentityCodec::decode_state(IdentityCodec::encode_state(state)).value();
  for (const Event& event : writer.events()) {
    const core::TurnInfo info{.seq = 1, .time_ms = now_ms, .epoch = 1};
    const Event stored = IdentityCodec::decode(IdentityCodec::encode(event)).value();
    EXPECT_EQ(stored, event);
    Decider::evolve(state, event, info);
    Decider::evolve(replayed, stored, info);
  }
  EXPECT_EQ(IdentityCodec::encode_state(state), IdentityCodec::encode_state(replayed));
  return {};
}

TEST(Identity, ATokenIsFoundByItsHashUntilItIsRevoked) {
  State state;
  const Token token = token_named("ann-laptop", Role::operator_ | Role::user);
  ASSERT_TRUE(apply(state, CreateToken{token, "operator"}));
  const auto caller = state.find(token.hash);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->tenant, "default");
  EXPECT_TRUE(has(caller->roles, Role::operator_));
  EXPECT_FALSE(has(caller->roles, Role::approver));
  ASSERT_TRUE(apply(state, RevokeToken{"ann-laptop", "operator"}, 2000));
  EXPECT_FALSE(state.find(token.hash));
  EXPECT_EQ(state.tokens.at("ann-laptop").revoked_ms, 2000);
}

TEST(Identity, ANameOrAHashIsNeverUsedTwiceAlsoAfterRevocation) {
  State state;
  ASSERT_TRUE(apply(state, CreateToken{token_named("a", 2), ""}));
  ASSERT_TRUE(apply(state, RevokeToken{"a", ""}));
  EXPECT_EQ(apply(state, CreateToken{token_named("a", 2, 'b'), ""}).error().code, base::Code::already_exists);
  EXPECT_EQ(apply(state, CreateToken{token_named("b", 2), ""}).error().code, base::Code::already_exists);
  EXPECT_EQ(apply(state, RevokeToken{"a", ""}).error().code, base::Code::already_exists);
  EXPECT_EQ(apply(state, RevokeToken{"nobody", ""}).error().code, base::Code::not_found);
}

TEST(Identity, TheLastAdminIsNotRevoked) {
  State state;
  ASSERT_TRUE(apply(state, CreateToken{token_named("first", Role::admin | Role::operator_, 'a'), ""}));
  ASSERT_TRUE(apply(state, CreateToken{token_named("plain", Role::operator_ | Role::user, 'b'), ""}));
  EXPECT_EQ(apply(state, RevokeToken{"first", ""}).error().code, base::Code::invalid_argument);
  ASSERT_TRUE(apply(state, CreateToken{token_named("second", Role::admin | Role::user, 'c'), ""}));
  ASSERT_TRUE(apply(state, RevokeToken{"first", ""}));
  EXPECT_EQ(apply(state, RevokeToken{"second", ""}).error().code, base::Code::invalid_argument);
  EXPECT_TRUE(apply(state, RevokeToken{"plain", ""}));
}

TEST(Identity, NamesThatCouldLeaveTheTokenFolderAreRefused) {
  State state;
  for (const char* name : {"", ".", "..", "../x", "a/b", "-x", "a b", "a\n", "ü"}) {
    EXPECT_EQ(apply(state, CreateToken{token_named(name, 2), ""}).error().code, base::Code::invalid_argument)
        << name;
  }
  EXPECT_EQ(apply(state, CreateToken{token_named("x", 0), ""}).error().code, base::Code::invalid_argument);
  EXPECT_EQ(apply(state, CreateToken{token_named("x", 1U << 30), ""}).error().code,
            base::Code::invalid_argument);
}

// J4: what is newer is refused by name, never skipped.
TEST(Identity, AnEventOfANewerProgramIsRefused) {
  EXPECT_EQ(IdentityCodec::decode({.type = 99, .version = 1, .body = ""}).error().code,
            base::Code::event_unknown);
  EXPECT_EQ(IdentityCodec::decode({.type = 1, .version = 2, .body = ""}).error().code,
            base::Code::event_unknown);
  EXPECT_EQ(IdentityCodec::decode({.type = 1, .version = 1, .body = "\xff"}).error().code,
            base::Code::record_damaged);
}

TEST(Identity, OnlyWellShapedTokensHaveAHash) {
  const std::string text = token_text(std::string(32, '\x7f'));
  EXPECT_EQ(text.size(), 68U);
  EXPECT_EQ(token_hash(text), base::sha256(text));
  EXPECT_FALSE(token_hash(text + "0"));
  EXPECT_FALSE(token_hash("sgt_" + std::string(64, 'G')));
  EXPECT_FALSE(token_hash(""));
}

// X3: no role implies the approver's, and nobody but an admin sees another tenant.
TEST(Access, ApprovalsAreDecidedByApproversAlone) {
  const Caller everything_else{"x", "default", "x", kAllRoles & ~static_cast<Roles>(Role::approver)};
  EXPECT_EQ(may_call(everything_else, Call::decide).error().code, base::Code::permission_denied);
  EXPECT_TRUE(may_call(Caller{"x", "default", "x", static_cast<Roles>(Role::approver)}, Call::decide));
}

TEST(Access, AuditorsChangeNothing) {
  const Caller auditor{"x", "default", "x", static_cast<Roles>(Role::auditor)};
  for (Call call :
       {Call::start_run, Call::signal_run, Call::cancel_run, Call::terminate_run, Call::resume_run,
        Call::decide, Call::upload_tree, Call::create_token, Call::revoke_token}) {
    EXPECT_FALSE(may_call(auditor, call)) << name_of(call);
  }
  EXPECT_TRUE(may_call(auditor, Call::read_order));
}

TEST(Access, WhatHoldsSeveralTenantsThingsIsForAdminsAndTheInstallationsAuditors) {
  const auto caller = [](Role role, std::string tenant) {
    return Caller{"x", std::move(tenant), "x", static_cast<Roles>(role)};
  };
  EXPECT_TRUE(may_read_all_tenants(caller(Role::admin, "acme")));
  EXPECT_TRUE(may_read_all_tenants(caller(Role::auditor, "default")));
  EXPECT_FALSE(may_read_all_tenants(caller(Role::auditor, "acme")));
  EXPECT_FALSE(may_read_all_tenants(caller(Role::operator_, "default")));
}

TEST(Access, AUserTouchesOwnRunsAnOperatorTheTenantsAndAnAdminAll) {
  const auto caller = [](Role role) { return Caller{"x", "acme", "ann", static_cast<Roles>(role)}; };
  EXPECT_TRUE(may_touch(caller(Role::user), "acme", "ann"));
  EXPECT_FALSE(may_touch(caller(Role::user), "acme", "bob"));
  EXPECT_TRUE(may_touch(caller(Role::operator_), "acme", "bob"));
  EXPECT_FALSE(may_touch(caller(Role::operator_), "other", "ann"));
  EXPECT_TRUE(may_touch(caller(Role::admin), "other", "bob"));
}

}  // namespace
}  // namespace sandglass::engine::identity
