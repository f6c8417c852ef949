// "schedule.run" (schedule/decider.h): starts the run that a schedule's state names, or attaches to it, and
// answers when it has ended.
#pragma once

#include <string>
#include <utility>

#include "engine/api/backend.h"
#include "engine/core/ports/activity.h"

namespace sandglass::engine::server::compose {

/// Thread rule: as of every activity; the engine's callbacks come on the loop's thread. The engine outlives
/// it.
class ScheduledRuns final : public core::Activity {
 public:
  ScheduledRuns(api::EnginePort& engine, std::string tenant_key)
      : engine_(engine), tenant_key_(std::move(tenant_key)) {}

  void start(core::ActivityCall call, core::ActivityDone done) override;
  /// Stops the run: it is cancelled, or terminated where that is the schedule's policy.
  void cancel(const core::StreamId& stream, const std::string& path, const core::Token& token) override;

 private:
  void stop(const core::StreamId& run, bool terminate);
  void await(const core::StreamId& run, std::uint64_t from_seq, core::ActivityDone done);
  void look(const core::StreamId& run, core::ActivityDone done);

  api::EnginePort& engine_;
  const std::string tenant_key_;
};

}  // namespace sandglass::engine::server::compose
