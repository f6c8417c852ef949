// The live coroutines of an activator: made, asked, kept while they are of use. Internal to engine/workflow.
//
// Thread rule: take(), keep() and the rest are callable from any thread; an instance that was taken belongs
// to the taker. A run is activated by one thread at a time, since the shard waits for each answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/core/ports/activator.h"
#include "engine/workflow/instance.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::workflow {

/// The tenant's secret key, from which run keys are made (J23). Called when an instance is made.
using TenantKey = std::function<std::string(const std::string& tenant)>;

class LiveRuns {
 public:
  LiveRuns(const Registry& registry, TenantKey tenant_key)
      : registry_(registry), tenant_key_(std::move(tenant_key)) {}

  struct Taken {
    std::unique_ptr<Instance> instance;
    std::uint64_t epoch = 0;  // of this run's cache entry: an eviction meanwhile makes it stale
  };

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const;
  void evict(const core::StreamId& stream);
  void evict_all();
  std::size_t size() const;

  /// Runs the code for one request and keeps the instance if it can go on. The request is used up.
  core::ActivationAnswer activate(core::ActivationRequest request);

 private:
  core::ActivationAnswer ask(core::ActivationRequest request);
  base::Result<std::unique_ptr<Instance>> make(const core::ActivationRequest& request) const;
  struct Entry {
    std::unique_ptr<Instance> instance;  // null while it is taken
    std::uint64_t head = 0;
    std::uint64_t epoch = 0;
  };

  Taken take(const core::StreamId& stream, bool rebuild);
  void keep(const core::StreamId& stream, Taken taken, std::uint64_t head);
  core::CommandPtr run_code(const core::ActivationRequest& request, Taken& taken) const;

  const Registry& registry_;
  TenantKey tenant_key_;
  mutable std::mutex mutex_;
  std::map<core::StreamId, Entry> entries_;
  std::uint64_t next_epoch_ = 1;
};

}  // namespace sandglass::engine::workflow
