// Shows a kind whose events and state are stored as protobuf messages of sandglass.record.v1, by reflection:
// fields by their names, 17 bytes as a stream, 32 as a hash. What is not linked into the program is shown
// bare.
//
// Thread rule: stateless.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::replay {

class ProtoDescriber final : public Describer {
 public:
  /// `events`: message names by event type.
  ProtoDescriber(std::shared_ptr<const engine::fold::AnyKind> kind,
                 std::map<std::uint32_t, std::string> events, std::string state)
      : kind_(std::move(kind)), events_(std::move(events)), state_(std::move(state)) {}

  std::vector<DescribedEvent> events(const engine::core::EventBatch& batch) const override;
  Facts state(const engine::core::StreamState& state) const override;

 private:
  std::shared_ptr<const engine::fold::AnyKind> kind_;
  std::map<std::uint32_t, std::string> events_;
  std::string state_;
};

/// The describer of each kind that the product has; BareDescriber for others.
std::unique_ptr<const Describer> describer_for(std::shared_ptr<const engine::fold::AnyKind> kind);

}  // namespace sandglass::replay_tools::replay
