#include "sandbox-runtime/manager/reconciler.h"

#include <algorithm>

namespace sandglass::sandbox_runtime::manager {

using engine::base::Result;
using provider::InventoryItem;
using scheduler::SandboxStage;

struct Reconciler::Mailbox {
  std::mutex mutex;
  std::optional<Result<std::vector<InventoryItem>>> inventory;
};

std::vector<scheduler::ReportLoss> losses_of(const scheduler::PoolState& pool,
                                             const std::vector<InventoryItem>& inventory) {
  std::vector<scheduler::ReportLoss> losses;
  for (const auto& [id, sandbox] : pool.sandboxes) {
    if (sandbox.stage != SandboxStage::leased && sandbox.stage != SandboxStage::expiring) continue;
    const bool there = std::ranges::any_of(
        inventory, [&](const InventoryItem& item) { return item.id == id && item.alive; });
    if (!there) losses.push_back({id, sandbox.token});
  }
  return losses;
}

Reconciler::Reconciler(Ports ports, std::int64_t every_ms)
    : ports_(std::move(ports)), every_ms_(every_ms), mailbox_(std::make_shared<Mailbox>()) {}

Reconciler::~Reconciler() = default;

void Reconciler::poll(std::int64_t monotonic_ms) {
  std::optional<Result<std::vector<InventoryItem>>> answered;
  {
    const std::lock_guard lock(mailbox_->mutex);
    answered.swap(mailbox_->inventory);
  }
  if (answered) {
    if (!*answered) {
      busy_ = false;
    } else {
      inventory_ = **std::move(answered);
      report_losses(inventory_);
      read_all(after_, [this] { destroy_orphans(); });
    }
  }
  if (busy_ || (began_ms_ && monotonic_ms - *began_ms_ < every_ms_)) return;
  busy_ = true;
  began_ms_ = monotonic_ms;
  read_all(before_, [this] { ask_inventory(); });
}

void Reconciler::read_all(States& into, std::move_only_function<void()> then) {
  into.clear();
  if (ports_.pools.empty()) {
    busy_ = false;
    return;
  }
  // Shared by the callbacks, which come on this thread, perhaps at once.
  struct Round {
    std::size_t open;
    std::move_only_function<void()> then;
  };
  auto round = std::make_shared<Round>(ports_.pools.size(), std::move(then));
  for (const core::StreamId& pool : ports_.pools) {
    ports_.read(pool, [&into, pool, round](PoolStatePtr state) {
      into[pool] = std::move(state);
      if (--round->open == 0) round->then();
    });
  }
}

void Reconciler::ask_inventory() {
  ports_.provider.inventory(
      [mailbox = mailbox_, wake = ports_.wake](Result<std::vector<InventoryItem>> items) {
        {
          const std::lock_guard lock(mailbox->mutex);
          mailbox->inventory = std::move(items);
        }
        if (wake) wake();
      });
}

void Reconciler::report_losses(const std::vector<InventoryItem>& inventory) {
  for (const auto& [pool, state] : before_) {
    if (state == nullptr) continue;
    for (scheduler::ReportLoss& loss : losses_of(*state, inventory)) ports_.report(pool, std::move(loss));
  }
}

void Reconciler::destroy_orphans() {
  busy_ = false;
  const bool complete =
      std::ranges::all_of(after_, [](const auto& entry) { return entry.second != nullptr; });
  if (!complete) return;  // what cannot be seen may be somebody's
  for (const InventoryItem& item : inventory_) {
    const bool known = std::ranges::any_of(
        after_, [&](const auto& entry) { return entry.second->sandboxes.contains(item.id); });
    if (!known) ports_.provider.destroy({item.id, item.fence}, [](Result<void>) {});  // else the next round
  }
}

}  // namespace sandglass::sandbox_runtime::manager
