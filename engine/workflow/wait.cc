#include "engine/workflow/wait.h"

#include <algorithm>

#include "engine/workflow/instance.h"

namespace sandglass::engine::workflow {

CancelScope::CancelScope(CancelScope* parent) : parent_(parent) {
  if (parent_ == nullptr) return;
  cancelled_ = parent_->cancelled_;
  parent_->inner_.push_back(this);
}

CancelScope::~CancelScope() {
  if (parent_ != nullptr) std::erase(parent_->inner_, this);
}

void CancelScope::cancel() {
  if (cancelled_) return;
  cancelled_ = true;
  const std::vector<Wait*> waits = std::exchange(waits_, {});
  for (Wait* wait : waits) wait->deliver({.cancelled = true});
  for (CancelScope* scope : inner_)
    scope->cancel();  // nothing is resumed in here, so the list stays as it is
}

Wait::Wait(Instance& instance, CancelScope* scope, std::vector<Key> keys)
    : instance_(instance), scope_(scope), keys_(std::move(keys)), tree_(instance.queue().tree()) {
  for (const Key& key : keys_) instance_.register_wait(key, *this);
  if (scope_ != nullptr) scope_->waits_.push_back(this);
}

Wait::~Wait() {
  leave();
}

void Wait::deliver(Delivery delivery) {
  if (done_) return;
  done_ = true;
  delivery_ = std::move(delivery);
  leave();
  if (waiter_) instance_.queue().push(waiter_, tree_);
}

void Wait::leave() {
  for (const Key& key : keys_) instance_.unregister_wait(key, *this);
  keys_.clear();
  if (scope_ != nullptr) std::erase(scope_->waits_, this);
  scope_ = nullptr;
}

}  // namespace sandglass::engine::workflow
