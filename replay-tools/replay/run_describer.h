// Runs as facts. Thread rule: stateless.
#pragma once

#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::replay {

class RunDescriber final : public Describer {
 public:
  std::vector<DescribedEvent> events(const engine::core::EventBatch& batch) const override;
  Facts state(const engine::core::StreamState& state) const override;
};

}  // namespace sandglass::replay_tools::replay
