// Workflow code on an activation thread, so that the shard's loop never waits for it. Code that does not come
// back within the limit makes its run stuck, and its thread is abandoned and replaced (J13): it keeps what it
// holds until it returns, if ever, and its answer is then dropped. It goes on at the lowest priority; when
// too many of them are still at it, `exhausted` is called: the process should end and start anew.
//
// Thread rule: one thread calls; `wake` is called from the activation thread when an answer is ready.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/ports.h"
#include "engine/core/ports/activator.h"
#include "engine/workflow/live_runs.h"
#include "engine/workflow/registry.h"
#include "engine/workflow/slot_file.h"

namespace sandglass::engine::workflow {

struct ThreadedActivatorOptions {
  std::int64_t limit_ms = 1000;     // of one activation
  std::function<void()> wake;       // may be empty
  std::shared_ptr<SlotFile> slots;  // may be null
  std::size_t max_abandoned = 8;    // that have not returned
  /// Called once, from poll. May be empty: then there is no limit.
  std::function<void(const base::Error&)> exhausted = {};
};

class ThreadedActivator final : public core::Activator {
 public:
  /// `registry` and `clock` outlive this and, should a thread be abandoned, the process's end.
  ThreadedActivator(const Registry& registry, TenantKey tenant_key, const base::Clock& clock,
                    ThreadedActivatorOptions options);
  /// Waits for the thread unless it is blocked over the limit.
  ~ThreadedActivator() override;

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const override;
  std::uint64_t restart_point(const core::StreamState& state) const override;
  void submit(core::ActivationRequest request) override;
  void poll(std::vector<core::ActivationAnswer>& answers) override;
  void evict(const core::StreamId& stream) override;
  void evict_all() override;

  /// Threads that were given up so far.
  std::uint64_t abandoned() const;

 private:
  struct Shared;
  struct Lane;

  bool came_back();
  void start_lane();
  void give_up_if_blocked(std::vector<core::ActivationAnswer>& answers);

  const base::Clock& clock_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Lane> lane_;
  std::uint64_t abandoned_ = 0;
};

}  // namespace sandglass::engine::workflow
