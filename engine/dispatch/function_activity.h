// An activity that is a function: run by a TaskRunner, so that the loop that starts it never waits.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/base/ports.h"
#include "engine/core/ports/activity.h"

namespace sandglass::engine::dispatch {

/// The function must not throw and not run for ever; it is not told of a cancellation. Ownership: the runner
/// outlives the activity and every closure that it has accepted.
class FunctionActivity final : public core::Activity {
 public:
  using Function = std::function<core::ActivityResult(const core::ActivityCall&)>;

  FunctionActivity(base::TaskRunner& runner, Function function)
      : runner_(runner), function_(std::make_shared<const Function>(std::move(function))) {}

  void start(core::ActivityCall call, core::ActivityDone done) override {
    runner_.run([function = function_, call = std::move(call), done = std::move(done)]() mutable {
      done((*function)(call));
    });
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}

 private:
  base::TaskRunner& runner_;
  std::shared_ptr<const Function> function_;
};

}  // namespace sandglass::engine::dispatch
