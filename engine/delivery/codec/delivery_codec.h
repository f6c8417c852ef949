// Events and snapshots of a partition's own stream: schemas/sandglass/record/v1/delivery.proto.
// Thread rule: pure functions. Errors: event_unknown, record_damaged.
#pragma once

#include <string>
#include <string_view>

#include "engine/codec/event.h"
#include "engine/delivery/delivery.h"

namespace sandglass::engine::delivery {

struct DeliveryCodec {
  static codec::EncodedEvent encode(const DeliveryDecider::Event& event);
  static base::Result<DeliveryDecider::Event> decode(const codec::EncodedEvent& encoded);
  static std::string encode_state(const DeliveryDecider::State& state);
  static base::Result<DeliveryDecider::State> decode_state(std::string_view bytes);
};

}  // namespace sandglass::engine::delivery
