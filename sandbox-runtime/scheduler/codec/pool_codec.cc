#include "sandbox-runtime/scheduler/codec/codec.h"
#include "sandbox-runtime/scheduler/codec/parts.h"

namespace sandglass::sandbox_runtime::scheduler::codec {

namespace {

// Event types; stored, never used again.
constexpr std::uint32_t kConfigured = 1;
constexpr std::uint32_t kCreating = 2;
constexpr std::uint32_t kUnwanted = 3;
constexpr std::uint32_t kLeased = 4;
constexpr std::uint32_t kAsked = 5;
constexpr std::uint32_t kRenewed = 6;
constexpr std::uint32_t kRenewalSettled = 7;
constexpr std::uint32_t kDestroying = 8;
constexpr std::uint32_t kDestroyFailed = 9;
constexpr std::uint32_t kDestroyStarted = 10;
constexpr std::uint32_t kGone = 11;

void to_proto(const PoolLimits& limits, pb::PoolLimits& out) {
  out.set_lease_ttl_ms(limits.lease_ttl_ms);
  out.set_answer_within_ms(limits.answer_within_ms);
  out.set_create_timeout_ms(limits.create_timeout_ms);
  out.set_destroy_timeout_ms(limits.destroy_timeout_ms);
}

PoolLimits from_proto(const pb::PoolLimits& limits) {
  return {.lease_ttl_ms = limits.lease_ttl_ms(),
          .answer_within_ms = limits.answer_within_ms(),
          .create_timeout_ms = limits.create_timeout_ms(),
          .destroy_timeout_ms = limits.destroy_timeout_ms()};
}

struct Encode {
  fold::EncodedEvent operator()(const PoolConfigured& event) const {
    pb::PoolConfigured out;
    to_proto(event.limits, *out.mutable_limits());
    return pack(kConfigured, out);
  }
  fold::EncodedEvent operator()(const SandboxCreating& event) const {
    pb::SandboxCreating out;
    out.set_sandbox(event.sandbox);
    out.set_token(event.token);
    out.set_reservation(event.reservation);
    codec::to_proto(event.claim, *out.mutable_claim());
    codec::to_proto(event.action, *out.mutable_action());
    return pack(kCreating, out);
  }
  fold::EncodedEvent operator()(const SandboxUnwanted& event) const {
    pb::SandboxUnwanted out;
    out.set_sandbox(event.sandbox);
    out.set_code(static_cast<std::uint32_t>(event.code));
    return pack(kUnwanted, out);
  }
  fold::EncodedEvent operator()(const SandboxLeased& event) const {
    pb::SandboxLeased out;
    out.set_sandbox(event.sandbox);
    out.set_ask_ms(event.ask_ms);
    return pack(kLeased, out);
  }
  fold::EncodedEvent operator()(const LeaseAsked& event) const {
    pb::LeaseAsked out;
    out.set_sandbox(event.sandbox);
    out.set_ends_ms(event.ends_ms);
    return pack(kAsked, out);
  }
  fold::EncodedEvent operator()(const LeaseRenewed& event) const {
    pb::LeaseRenewed out;
    out.set_sandbox(event.sandbox);
    out.set_ask_ms(event.ask_ms);
    codec::to_proto(event.action, *out.mutable_action());
    return pack(kRenewed, out);
  }
  fold::EncodedEvent operator()(const RenewalSettled& event) const {
    pb::RenewalSettled out;
    out.set_sandbox(event.sandbox);
    return pack(kRenewalSettled, out);
  }
  fold::EncodedEvent operator()(const SandboxDestroying& event) const {
    pb::SandboxDestroying out;
    out.set_sandbox(event.sandbox);
    out.set_code(static_cast<std::uint32_t>(event.code));
    out.set_told(event.told);
    codec::to_proto(event.action, *out.mutable_action());
    return pack(kDestroying, out);
  }
  fold::EncodedEvent operator()(const DestroyFailed& event) const {
    pb::DestroyFailed out;
    out.set_sandbox(event.sandbox);
    out.set_failures(event.failures);
    out.set_next_ms(event.next_ms);
    return pack(kDestroyFailed, out);
  }
  fold::EncodedEvent operator()(const DestroyStarted& event) const {
    pb::DestroyStarted out;
    out.set_sandbox(event.sandbox);
    codec::to_proto(event.action, *out.mutable_action());
    return pack(kDestroyStarted, out);
  }
  fold::EncodedEvent operator()(const SandboxGone& event) const {
    pb::SandboxGone out;
    out.set_sandbox(event.sandbox);
    return pack(kGone, out);
  }
};

using Event = PoolDecider::Event;

// One overload per message: the value that it stands for.
base::Result<Event> event_of(const pb::PoolConfigured& in) {
  return PoolConfigured{from_proto(in.limits())};
}
base::Result<Event> event_of(const pb::SandboxCreating& in) {
  auto claim = codec::from_proto(in.claim());
  if (!claim) return std::unexpected(claim.error());
  return SandboxCreating{in.sandbox(), in.token(), in.reservation(), std::move(*claim),
                         codec::from_proto(in.action())};
}
base::Result<Event> event_of(const pb::SandboxUnwanted& in) {
  return SandboxUnwanted{in.sandbox(), static_cast<base::Code>(in.code())};
}
base::Result<Event> event_of(const pb::SandboxLeased& in) {
  return SandboxLeased{in.sandbox(), in.ask_ms()};
}
base::Result<Event> event_of(const pb::LeaseAsked& in) {
  return LeaseAsked{in.sandbox(), in.ends_ms()};
}
base::Result<Event> event_of(const pb::LeaseRenewed& in) {
  return LeaseRenewed{in.sandbox(), in.ask_ms(), codec::from_proto(in.action())};
}
base::Result<Event> event_of(const pb::RenewalSettled& in) {
  return RenewalSettled{in.sandbox()};
}
base::Result<Event> event_of(const pb::SandboxDestroying& in) {
  return SandboxDestroying{in.sandbox(), static_cast<base::Code>(in.code()), in.told(),
                           codec::from_proto(in.action())};
}
base::Result<Event> event_of(const pb::DestroyFailed& in) {
  return DestroyFailed{in.sandbox(), in.failures(), in.next_ms()};
}
base::Result<Event> event_of(const pb::DestroyStarted& in) {
  return DestroyStarted{in.sandbox(), codec::from_proto(in.action())};
}
base::Result<Event> event_of(const pb::SandboxGone& in) {
  return SandboxGone{in.sandbox()};
}

template <class Message>
base::Result<Event> decode_as(std::string_view body) {
  Message in;
  if (!parse(body, in)) return damaged(Message::descriptor()->name());
  return event_of(in);
}

base::Result<Event> decode_body(const fold::EncodedEvent& encoded) {
  switch (encoded.type) {
    case kConfigured:
      return decode_as<pb::PoolConfigured>(encoded.body);
    case kCreating:
      return decode_as<pb::SandboxCreating>(encoded.body);
    case kUnwanted:
      return decode_as<pb::SandboxUnwanted>(encoded.body);
    case kLeased:
      return decode_as<pb::SandboxLeased>(encoded.body);
    case kAsked:
      return decode_as<pb::LeaseAsked>(encoded.body);
    case kRenewed:
      return decode_as<pb::LeaseRenewed>(encoded.body);
    case kRenewalSettled:
      return decode_as<pb::RenewalSettled>(encoded.body);
    case kDestroying:
      return decode_as<pb::SandboxDestroying>(encoded.body);
    case kDestroyFailed:
      return decode_as<pb::DestroyFailed>(encoded.body);
    case kDestroyStarted:
      return decode_as<pb::DestroyStarted>(encoded.body);
    case kGone:
      return decode_as<pb::SandboxGone>(encoded.body);
    default:
      return unknown("pool", encoded);
  }
}

}  // namespace

fold::EncodedEvent PoolCodec::encode(const Event& event) {
  return std::visit(Encode{}, event);
}

base::Result<Event> PoolCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.version != 1) return unknown("pool", encoded);
  return decode_body(encoded);
}

std::string PoolCodec::encode_state(const PoolState& state) {
  pb::PoolState out;
  to_proto(state.limits, *out.mutable_limits());
  out.set_configured(state.configured);
  out.set_tokens(state.tokens);
  for (const auto& [id, sandbox] : state.sandboxes) {
    auto& item = *out.add_sandboxes();
    item.set_id(id);
    item.set_stage(static_cast<std::uint32_t>(sandbox.stage));
    item.set_token(sandbox.token);
    item.set_reservation(sandbox.reservation);
    codec::to_proto(sandbox.claim, *item.mutable_claim());
    item.set_timer_ms(sandbox.timer_ms);
    codec::to_proto(sandbox.action, *item.mutable_action());
    item.set_end_code(static_cast<std::uint32_t>(sandbox.end_code));
    item.set_destroy_failures(sandbox.destroy_failures);
    item.set_told(sandbox.told);
  }
  return out.SerializeAsString();
}

base::Result<PoolState> PoolCodec::decode_state(std::string_view bytes) {
  pb::PoolState in;
  if (!parse(bytes, in)) return damaged("the pool state");
  PoolState state{.limits = from_proto(in.limits()), .configured = in.configured(), .tokens = in.tokens()};
  for (const auto& item : in.sandboxes()) {
    auto claim = codec::from_proto(item.claim());
    if (!claim) return std::unexpected(claim.error());
    if (item.stage() < 1 || item.stage() > 4) return damaged("a sandbox's stage");
    state.sandboxes[item.id()] = {.stage = static_cast<SandboxStage>(item.stage()),
                                  .token = item.token(),
                                  .reservation = item.reservation(),
                                  .claim = std::move(*claim),
                                  .timer_ms = item.timer_ms(),
                                  .action = codec::from_proto(item.action()),
                                  .end_code = static_cast<base::Code>(item.end_code()),
                                  .destroy_failures = item.destroy_failures(),
                                  .told = item.told()};
  }
  return state;
}

std::shared_ptr<const fold::AnyKind> make_pool_kind() {
  return std::make_shared<fold::Kind<core::StreamKind::pool, false, PoolDecider, PoolCodec, fold::NoView>>();
}

}  // namespace sandglass::sandbox_runtime::scheduler::codec
