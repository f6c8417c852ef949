#include "engine/delivery/codec/delivery_codec.h"

#include <utility>

#include "engine/codec/common.h"
#include "schemas/sandglass/record/v1/delivery.pb.h"

namespace sandglass::engine::delivery {
namespace {

namespace proto = ::sandglass::record::v1;

constexpr std::uint32_t kSettledType = 1;
constexpr std::uint32_t kSettledVersion = 1;

std::string encode_settled(const DeliveriesSettled& settled) {
  proto::DeliveriesSettled out;
  out.set_partition(settled.partition);
  for (const Arrived& arrived : settled.arrived) {
    auto* to = out.add_arrived();
    to->set_source(codec::stream_bytes(arrived.source));
    to->set_source_seq(arrived.source_seq);
    to->set_index(arrived.index);
  }
  for (const Forgotten& forgotten : settled.forgotten) {
    auto* to = out.add_forgotten();
    to->set_target(codec::stream_bytes(forgotten.target));
    to->set_source(codec::stream_bytes(forgotten.source));
  }
  return out.SerializeAsString();
}

base::Result<DeliveriesSettled> decode_settled(std::string_view bytes) {
  proto::DeliveriesSettled in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return base::fail(base::Code::record_damaged, "a DeliveriesSettled event is damaged");
  }
  DeliveriesSettled settled{.partition = static_cast<core::PartitionId>(in.partition())};
  for (const auto& arrived : in.arrived()) {
    auto source = codec::stream_from(arrived.source());
    if (!source) return std::unexpected(source.error());
    settled.arrived.push_back({*source, arrived.source_seq(), arrived.index()});
  }
  for (const auto& forgotten : in.forgotten()) {
    auto target = codec::stream_from(forgotten.target());
    auto source = codec::stream_from(forgotten.source());
    if (!target) return std::unexpected(target.error());
    if (!source) return std::unexpected(source.error());
    settled.forgotten.push_back({*target, *source});
  }
  return settled;
}

}  // namespace

codec::EncodedEvent DeliveryCodec::encode(const DeliveryDecider::Event& event) {
  return {kSettledType, kSettledVersion, encode_settled(std::get<DeliveriesSettled>(event))};
}

base::Result<DeliveryDecider::Event> DeliveryCodec::decode(const codec::EncodedEvent& encoded) {
  if (encoded.type != kSettledType || encoded.version != kSettledVersion) {
    return base::fail(base::Code::event_unknown,
                      "partition stream: event type " + std::to_string(encoded.type) + " version " +
                          std::to_string(encoded.version) + " is newer than this program");
  }
  return decode_settled(encoded.body);
}

std::string DeliveryCodec::encode_state(const DeliveryDecider::State& state) {
  return encode_settled(state.newest);
}

base::Result<DeliveryDecider::State> DeliveryCodec::decode_state(std::string_view bytes) {
  auto settled = decode_settled(bytes);
  if (!settled) return std::unexpected(settled.error());
  return DeliveryDecider::State{std::move(*settled)};
}

}  // namespace sandglass::engine::delivery
