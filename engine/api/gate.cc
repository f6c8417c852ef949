#include "engine/api/gate.h"

#include <string>
#include <utility>

namespace sandglass::engine::api {

namespace {

using base::Code;

constexpr std::string_view kBearer = "Bearer ";

}  // namespace

void Gate::set_identities(std::shared_ptr<const identity::State> state) {
  const std::lock_guard lock(mutex_);
  identities_ = std::move(state);
}

void Gate::set_reason(std::string why_nobody_is_admitted) {
  const std::lock_guard lock(mutex_);
  reason_ = std::move(why_nobody_is_admitted);
}

base::Result<identity::Caller> Gate::identify(std::optional<std::string_view> authorization) const {
  std::shared_ptr<const identity::State> identities;
  {
    const std::lock_guard lock(mutex_);
    if (!identities_) return base::fail(Code::unavailable, reason_);
    identities = identities_;
  }
  if (!authorization) {
    return base::fail(Code::unauthenticated,
                      "the call carries no token; choose one with --as NAME or SANDGLASS_TOKEN");
  }
  if (authorization->starts_with(kBearer)) {
    if (const auto hash = identity::token_hash(authorization->substr(kBearer.size()))) {
      if (auto caller = identities->find(*hash)) return *std::move(caller);
    }
  }
  return base::fail(
      Code::unauthenticated,
      "the token is not valid here: unknown, revoked, or of another data folder; choose one with --as NAME");
}

base::Result<Gate::Pass> Gate::admit(std::optional<std::string_view> authorization, identity::Call call,
                                     bool streams, std::optional<identity::Caller>* denied) {
  auto caller = identify(authorization);
  if (!caller) {
    if (caller.error().code == Code::unauthenticated) ++unauthenticated_;
    return std::unexpected(caller.error());
  }
  if (auto allowed = identity::may_call(*caller, call); !allowed) {
    ++denied_;
    if (denied != nullptr) *denied = *std::move(caller);
    return std::unexpected(allowed.error());
  }
  auto& places = streams ? streams_ : calls_;
  if (places.fetch_add(1) >= (streams ? limits_.streams : limits_.calls_in_flight)) {
    places.fetch_sub(1);
    ++overloaded_;
    return base::fail(Code::overloaded,
                      streams ? "too many streams are open (limits.follows); try again later"
                              : "too many calls are waiting (limits.calls_in_flight); try again later");
  }
  ++admitted_;
  return Pass(this, streams, *std::move(caller));
}

base::Status Gate::still_valid(const identity::Caller& caller) const {
  const std::lock_guard lock(mutex_);
  if (!identities_) return base::fail(Code::unavailable, reason_);
  const auto token = identities_->tokens.find(caller.token_name);
  if (token != identities_->tokens.end() && token->second.revoked_ms == 0) return {};
  return base::fail(Code::unauthenticated, "the token " + caller.token_name + " was revoked meanwhile");
}

void Gate::leave(bool streams) {
  (streams ? streams_ : calls_).fetch_sub(1);
}

GateCounters Gate::counters() const {
  return {.admitted = admitted_,
          .unauthenticated = unauthenticated_,
          .denied = denied_,
          .overloaded = overloaded_,
          .in_flight = calls_ + streams_};
}

}  // namespace sandglass::engine::api
