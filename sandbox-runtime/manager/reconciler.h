// Compares the pools' books with what the host really has (Q3, FR-180, FR-184), again and again:
//
//   pools' states ─▶ host's inventory ─▶ pools' states again
//
// A lease that the first states hold and the inventory lacks is lost: the pool is told. A sandbox that the
// inventory has and the later states do not know is nobody's: it is destroyed. (In this order, since a pool's
// record is durable before its action is carried out.) A host that does not answer says nothing about its
// sandboxes (J16): the round is dropped.
//
// Thread rule: poll() and the callbacks of `read` on one thread, the loop's; the provider answers from its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sandbox-runtime/provider/provider.h"
#include "sandbox-runtime/scheduler/pool.h"

namespace sandglass::sandbox_runtime::manager {

namespace core = engine::core;

class Reconciler {
 public:
  using PoolStatePtr = std::shared_ptr<const scheduler::PoolState>;
  struct Ports {
    provider::Provider& provider;
    std::vector<core::StreamId> pools;
    /// The pool's durable state; null if it cannot be read now.
    std::function<void(const core::StreamId& pool, std::move_only_function<void(PoolStatePtr)>)> read;
    std::function<void(const core::StreamId& pool, scheduler::ReportLoss)> report;
    std::function<void()> wake;  // poll() has news; called from any thread
  };

  explicit Reconciler(Ports ports, std::int64_t every_ms = 4'000);
  ~Reconciler();

  void poll(std::int64_t monotonic_ms);

 private:
  using States = std::map<core::StreamId, PoolStatePtr>;
  struct Mailbox;  // outlives this for answers that come too late

  void read_all(States& into, std::move_only_function<void()> then);
  void ask_inventory();
  void report_losses(const std::vector<provider::InventoryItem>& inventory);
  void destroy_orphans();

  Ports ports_;
  const std::int64_t every_ms_;
  std::optional<std::int64_t> began_ms_;
  bool busy_ = false;
  States before_;
  States after_;
  std::vector<provider::InventoryItem> inventory_;
  std::shared_ptr<Mailbox> mailbox_;
};

/// Leases of `pool` that the host does not have (any more).
std::vector<scheduler::ReportLoss> losses_of(const scheduler::PoolState& pool,
                                             const std::vector<provider::InventoryItem>& inventory);

}  // namespace sandglass::sandbox_runtime::manager
