#include "engine/refusals/codec/codec.h"

#include "engine/codec/common.h"
#include "schemas/sandglass/record/v1/refusals.pb.h"

namespace sandglass::engine::refusals::codec {

namespace {

namespace pb = ::sandglass::record::v1;

constexpr std::uint32_t kNoted = 1;  // stored, never used again

std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::Code::record_damaged,
                    "bytes of the refusals stream do not parse: " + std::string(what));
}

}  // namespace

fold::EncodedEvent RefusalsCodec::encode(const RefusalsDecider::Event& event) {
  const auto& noted = std::get<RefusalNoted>(event);
  pb::RefusalNoted out;
  out.set_token(noted.token);
  out.set_tenant(noted.tenant);
  out.set_user(noted.user);
  out.set_call(noted.call);
  out.set_code(static_cast<std::uint32_t>(noted.code));
  out.set_dropped(noted.dropped);
  engine::codec::to_proto(noted.details, *out.mutable_details());
  return {.type = kNoted, .version = 1, .body = out.SerializeAsString()};
}

base::Result<RefusalsDecider::Event> RefusalsCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.type != kNoted || encoded.version != 1) {
    return base::fail(base::Code::event_unknown, "refusals event type " + std::to_string(encoded.type) +
                                                     " version " + std::to_string(encoded.version) +
                                                     " is newer than this program; start a newer Sandglass");
  }
  pb::RefusalNoted in;
  if (!in.ParseFromString(encoded.body)) return damaged("RefusalNoted");
  const auto details = engine::codec::from_proto(in.details());
  if (!details) return damaged("RefusalNoted");
  return RefusalNoted{.token = in.token(),
                      .tenant = in.tenant(),
                      .user = in.user(),
                      .call = in.call(),
                      .code = static_cast<base::Code>(in.code()),
                      .dropped = in.dropped(),
                      .details = *details};
}

std::string RefusalsCodec::encode_state(const State& state) {
  pb::RefusalsState out;
  out.set_noted(state.noted);
  out.set_dropped(state.dropped);
  out.set_newest_ms(state.newest_ms);
  return out.SerializeAsString();
}

base::Result<State> RefusalsCodec::decode_state(std::string_view bytes) {
  pb::RefusalsState in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return damaged("the state");
  return State{.noted = in.noted(), .dropped = in.dropped(), .newest_ms = in.newest_ms()};
}

}  // namespace sandglass::engine::refusals::codec
