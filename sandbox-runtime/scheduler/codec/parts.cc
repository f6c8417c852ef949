#include "sandbox-runtime/scheduler/codec/parts.h"

namespace sandglass::sandbox_runtime::scheduler::codec {

void to_proto(const Claim& claim, pb::Claim& out) {
  out.set_run(claim.run.bytes());
  out.set_correlation(claim.correlation);
  out.set_template_name(claim.template_name);
  out.set_tenant(claim.tenant);
  out.set_user(claim.user);
}

base::Result<Claim> from_proto(const pb::Claim& claim) {
  const auto run = core::StreamId::from_bytes(claim.run());
  if (!run) return damaged("a claim's run");
  return Claim{.run = *run,
               .correlation = claim.correlation(),
               .template_name = claim.template_name(),
               .tenant = claim.tenant(),
               .user = claim.user()};
}

void to_proto(const core::Token& token, pb::Token& out) {
  out.set_epoch(token.epoch);
  out.set_attempt(token.attempt);
  out.set_counter(token.counter);
}

core::Token from_proto(const pb::Token& token) {
  return {.epoch = token.epoch(), .attempt = token.attempt(), .counter = token.counter()};
}

}  // namespace sandglass::sandbox_runtime::scheduler::codec
