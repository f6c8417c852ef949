// Runs workflow code for the shard (core/ports/activator.h). Two forms over the same live coroutines: inline,
// inside poll, for simulation and tests; and on an activation thread.
#pragma once

#include <memory>
#include <vector>

#include "engine/core/ports/activator.h"
#include "engine/run/state.h"
#include "engine/workflow/live_runs.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::workflow {

/// Restart point of a run: its last checkpoint's record.
std::uint64_t restart_point_of(const core::StreamState& state);

/// Code runs inside poll(). Thread rule: one thread.
class InlineActivator final : public core::Activator {
 public:
  /// `registry` outlives this.
  InlineActivator(const Registry& registry, TenantKey tenant_key) : runs_(registry, std::move(tenant_key)) {}

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const override {
    return runs_.is_live_at(stream, head);
  }
  std::uint64_t restart_point(const core::StreamState& state) const override {
    return restart_point_of(state);
  }
  void submit(core::ActivationRequest request) override { requests_.push_back(std::move(request)); }
  void poll(std::vector<core::ActivationAnswer>& answers) override;
  void evict(const core::StreamId& stream) override;
  void evict_all() override;

 private:
  LiveRuns runs_;
  std::vector<core::ActivationRequest> requests_;
};

}  // namespace sandglass::engine::workflow
