// Marks in-process steps as running while their code runs, on the loop's thread and on those of a pool (J13).
//
//   dispatcher: RunningScope around Activity::start ── the activity gives closures to a GuardedRunner ──▶
//   a scope of the same step around each closure, and around what that gives further
//
// Thread rule: a scope belongs to its thread; the runner is called from any.
#pragma once

#include <optional>
#include <utility>

#include "engine/base/ports.h"
#include "engine/core/ports/running.h"

namespace sandglass::engine::dispatch {

class RunningScope {
 public:
  /// `running` may be null: then nothing is marked.
  RunningScope(core::Running* running, const core::RunningCode& code)
      : running_(running), before_(std::exchange(current(), code)) {
    if (running_ != nullptr) slot_ = running_->enter(code);
  }
  ~RunningScope() {
    if (running_ != nullptr) running_->leave(slot_);
    current() = before_;
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

  /// What runs on this thread, if it is known.
  static std::optional<core::RunningCode>& current() {
    thread_local std::optional<core::RunningCode> code;
    return code;
  }

 private:
  core::Running* running_;
  std::optional<core::RunningCode> before_;
  std::size_t slot_ = 0;
};

/// Passes closures on, each marked as the step that gave it.
class GuardedRunner final : public base::TaskRunner {
 public:
  /// Both outlive every closure.
  GuardedRunner(base::TaskRunner& runner, core::Running& running) : runner_(runner), running_(running) {}

  void run(std::move_only_function<void()> closure) override {
    const auto code = RunningScope::current();
    if (!code) return runner_.run(std::move(closure));
    runner_.run([running = &running_, code = *code, closure = std::move(closure)]() mutable {
      const RunningScope scope(running, code);
      closure();
    });
  }

 private:
  base::TaskRunner& runner_;
  core::Running& running_;
};

}  // namespace sandglass::engine::dispatch
