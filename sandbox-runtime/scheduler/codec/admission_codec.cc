#include "sandbox-runtime/scheduler/codec/codec.h"
#include "sandbox-runtime/scheduler/codec/parts.h"

namespace sandglass::sandbox_runtime::scheduler::codec {

namespace {

// Event types; stored, never used again.
constexpr std::uint32_t kConfigured = 1;
constexpr std::uint32_t kQueued = 2;
constexpr std::uint32_t kRefused = 3;
constexpr std::uint32_t kReserved = 4;
constexpr std::uint32_t kCalledBack = 5;
constexpr std::uint32_t kReleased = 6;

void to_proto(const AdmissionLimits& limits, pb::AdmissionLimits& out) {
  out.set_global(limits.global);
  out.set_per_user(limits.per_user);
  out.set_queue(limits.queue);
  out.set_reservation_ttl_ms(limits.reservation_ttl_ms);
}

AdmissionLimits from_proto(const pb::AdmissionLimits& limits) {
  return {.global = limits.global(),
          .per_user = limits.per_user(),
          .queue = limits.queue(),
          .reservation_ttl_ms = limits.reservation_ttl_ms()};
}

struct Encode {
  fold::EncodedEvent operator()(const AdmissionConfigured& event) const {
    pb::AdmissionConfigured out;
    to_proto(event.limits, *out.mutable_limits());
    return pack(kConfigured, out);
  }
  fold::EncodedEvent operator()(const ClaimQueued& event) const {
    pb::ClaimQueued out;
    out.set_number(event.number);
    codec::to_proto(event.claim, *out.mutable_claim());
    out.set_until_ms(event.until_ms);
    return pack(kQueued, out);
  }
  fold::EncodedEvent operator()(const ClaimRefused& event) const {
    pb::ClaimRefused out;
    out.set_number(event.number);
    out.set_code(static_cast<std::uint32_t>(event.code));
    out.set_limit(event.limit);
    return pack(kRefused, out);
  }
  fold::EncodedEvent operator()(const ClaimReserved& event) const {
    pb::ClaimReserved out;
    out.set_reservation(event.reservation);
    out.set_number(event.number);
    codec::to_proto(event.claim, *out.mutable_claim());
    out.set_lapses_ms(event.lapses_ms);
    return pack(kReserved, out);
  }
  fold::EncodedEvent operator()(const ReservationCalledBack& event) const {
    pb::ReservationCalledBack out;
    out.set_reservation(event.reservation);
    return pack(kCalledBack, out);
  }
  fold::EncodedEvent operator()(const ReservationReleased& event) const {
    pb::ReservationReleased out;
    out.set_reservation(event.reservation);
    return pack(kReleased, out);
  }
};

using Event = AdmissionDecider::Event;

base::Result<Event> decode_queued(std::string_view body) {
  pb::ClaimQueued in;
  if (!parse(body, in)) return damaged("ClaimQueued");
  auto claim = codec::from_proto(in.claim());
  if (!claim) return std::unexpected(claim.error());
  return ClaimQueued{in.number(), std::move(*claim), in.until_ms()};
}

base::Result<Event> decode_reserved(std::string_view body) {
  pb::ClaimReserved in;
  if (!parse(body, in)) return damaged("ClaimReserved");
  auto claim = codec::from_proto(in.claim());
  if (!claim) return std::unexpected(claim.error());
  return ClaimReserved{in.reservation(), in.number(), std::move(*claim), in.lapses_ms()};
}

base::Result<Event> decode_body(const fold::EncodedEvent& encoded) {
  switch (encoded.type) {
    case kConfigured: {
      pb::AdmissionConfigured in;
      if (!parse(encoded.body, in)) return damaged("AdmissionConfigured");
      return AdmissionConfigured{from_proto(in.limits())};
    }
    case kQueued:
      return decode_queued(encoded.body);
    case kRefused: {
      pb::ClaimRefused in;
      if (!parse(encoded.body, in)) return damaged("ClaimRefused");
      return ClaimRefused{in.number(), static_cast<base::Code>(in.code()), in.limit()};
    }
    case kReserved:
      return decode_reserved(encoded.body);
    case kCalledBack: {
      pb::ReservationCalledBack in;
      if (!parse(encoded.body, in)) return damaged("ReservationCalledBack");
      return ReservationCalledBack{in.reservation()};
    }
    case kReleased: {
      pb::ReservationReleased in;
      if (!parse(encoded.body, in)) return damaged("ReservationReleased");
      return ReservationReleased{in.reservation()};
    }
    default:
      return unknown("admission", encoded);
  }
}

}  // namespace

fold::EncodedEvent AdmissionCodec::encode(const Event& event) {
  return std::visit(Encode{}, event);
}

base::Result<Event> AdmissionCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.version != 1) return unknown("admission", encoded);
  return decode_body(encoded);
}

std::string AdmissionCodec::encode_state(const AdmissionState& state) {
  pb::AdmissionState out;
  to_proto(state.limits, *out.mutable_limits());
  out.set_configured(state.configured);
  out.set_next_number(state.next_number);
  for (const auto& [id, reservation] : state.reservations) {
    auto& item = *out.add_reservations();
    item.set_id(id);
    codec::to_proto(reservation.claim, *item.mutable_claim());
    item.set_lapses_ms(reservation.lapses_ms);
    item.set_called_back(reservation.called_back);
  }
  for (const Waiting& waiting : state.queue) {
    auto& item = *out.add_queue();
    item.set_number(waiting.number);
    codec::to_proto(waiting.claim, *item.mutable_claim());
    item.set_until_ms(waiting.until_ms);
  }
  return out.SerializeAsString();
}

base::Result<AdmissionState> AdmissionCodec::decode_state(std::string_view bytes) {
  pb::AdmissionState in;
  if (!parse(bytes, in)) return damaged("the admission state");
  AdmissionState state{
      .limits = from_proto(in.limits()), .configured = in.configured(), .next_number = in.next_number()};
  for (const auto& item : in.reservations()) {
    auto claim = codec::from_proto(item.claim());
    if (!claim) return std::unexpected(claim.error());
    state.reservations[item.id()] = {std::move(*claim), item.lapses_ms(), item.called_back()};
  }
  for (const auto& item : in.queue()) {
    auto claim = codec::from_proto(item.claim());
    if (!claim) return std::unexpected(claim.error());
    state.queue.push_back({item.number(), std::move(*claim), item.until_ms()});
  }
  return state;
}

std::shared_ptr<const fold::AnyKind> make_admission_kind() {
  return std::make_shared<
      fold::Kind<core::StreamKind::admission, false, AdmissionDecider, AdmissionCodec, fold::NoView>>();
}

}  // namespace sandglass::sandbox_runtime::scheduler::codec
