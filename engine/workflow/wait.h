// What a suspended frame waits for, and the scopes that can cancel it. Internal to engine/workflow.
// Thread rule: a run's frames, waits and scopes are used by one thread at a time.
#pragma once

#include <coroutine>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/codes.h"
#include "engine/core/action.h"
#include "engine/core/messages/message.h"
#include "engine/core/payload.h"
#include "engine/workflow/task.h"

namespace sandglass::engine::workflow {

class Instance;
class Wait;

enum class WaitKind : std::uint8_t { step, operation, timer, signal, exchange, lease, condition, child };

/// What ended a wait.
struct Delivery {
  WaitKind from = WaitKind::step;
  bool cancelled = false;  // by its scope; nothing was delivered
  base::Code code = base::Code::ok;
  core::Outcome outcome = core::Outcome::done;
  core::FailureSide side = core::FailureSide::user;
  core::SlotPtr payload;
  core::SlotPtr details;
  std::string message;
  std::uint64_t number = 0;  // of a signal
  core::MessageBody body;
  core::StreamId source;
  core::RunEnd end = core::RunEnd::completed;  // of a child
};

/// A cancellation scope: cancelling one wakes its waits and those of the scopes inside it, in the order in
/// which they were made. Lives in a coroutine's frame; the root's in the Instance.
class CancelScope {
 public:
  /// Null parent: cancelled by nobody but its owner (clean-up).
  explicit CancelScope(CancelScope* parent);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  void cancel();
  bool cancelled() const { return cancelled_; }

 private:
  friend class Wait;

  CancelScope* parent_;
  bool cancelled_ = false;
  std::vector<CancelScope*> inner_;
  std::vector<Wait*> waits_;
};

/// One wait, in the frame of the coroutine that waits. Registered from construction to destruction, under one
/// or two keys (a signal or a time-out); the first delivery counts.
class Wait : public EngineAwaiter {
 public:
  struct Key {
    WaitKind kind;
    std::string path;  // of a signal: its name
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// Null scope: cannot be cancelled.
  Wait(Instance& instance, CancelScope* scope, std::vector<Key> keys);
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  void deliver(Delivery delivery);
  bool delivered() const { return done_; }

  bool await_ready() const noexcept { return done_; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    return true;
  }
  Delivery await_resume() { return std::move(delivery_); }

 private:
  void leave();

  Instance& instance_;
  CancelScope* scope_;
  std::vector<Key> keys_;
  const ReadyQueue::Tree tree_;
  std::coroutine_handle<> waiter_;
  bool done_ = false;
  Delivery delivery_;
};

}  // namespace sandglass::engine::workflow
