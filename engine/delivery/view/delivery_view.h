// Rows that a partition's own stream ends: deliveries that arrived elsewhere, inboxes that will not be used
// again. Thread rule: pure functions.
#pragma once

#include "engine/delivery/delivery.h"
#include "engine/view/keys.h"
#include "engine/view/view.h"

namespace sandglass::engine::delivery {

struct DeliveryView {
  static void project(const DeliveryDecider::State&, const DeliveryDecider::State& after,
                      const core::StreamId&, std::vector<view::ViewChange>& changes) {
    const DeliveriesSettled& settled = after.newest;
    for (const Arrived& one : settled.arrived) {
      changes.push_back(
          {view::undelivered_key(settled.partition, one.source, one.source_seq, one.index), std::nullopt});
    }
    for (const Forgotten& one : settled.forgotten) {
      changes.push_back({view::inbox_key(one.target, one.source), std::nullopt});
      changes.push_back({view::closing_key(settled.partition, one.target, one.source), std::nullopt});
    }
  }
};

}  // namespace sandglass::engine::delivery
