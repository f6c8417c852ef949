// What is recorded of a schedule. Clear facts; the input of its runs is a payload slot.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "engine/base/codes.h"
#include "engine/core/token.h"
#include "engine/schedule/plan.h"
#include "engine/schedule/types.h"

namespace sandglass::engine::schedule {

/// Times named `…_ms` in here are of the calendar unless said otherwise.
struct ScheduleCreated {
  Definition definition;
  std::string by;
  std::int64_t from_ms = 0;  // moments after it count
  friend bool operator==(const ScheduleCreated&, const ScheduleCreated&) = default;
};
struct ScheduleUpdated {
  Definition definition;
  std::string by;
  std::int64_t from_ms = 0;
  friend bool operator==(const ScheduleUpdated&, const ScheduleUpdated&) = default;
};
struct SchedulePaused {
  std::string by;
  friend bool operator==(const SchedulePaused&, const SchedulePaused&) = default;
};
/// The moments up to `until_ms` were passed over by the pause.
struct ScheduleResumed {
  std::string by;
  std::int64_t until_ms = 0;
  friend bool operator==(const ScheduleResumed&, const ScheduleResumed&) = default;
};
/// Its open runs go on, and their ends are still noted.
struct ScheduleDeleted {
  std::string by;
  friend bool operator==(const ScheduleDeleted&, const ScheduleDeleted&) = default;
};
/// When it wakes; 0: nothing wakes it.
struct WakeSet {
  std::int64_t due_ms = 0;
  friend bool operator==(const WakeSet&, const WakeSet&) = default;
};
/// Moments are asked for. `backfill`: of the first one that waits; else of the schedule itself.
struct PlanAsked {
  core::Token token;
  bool backfill = false;
  std::int64_t until_ms = 0;
  friend bool operator==(const PlanAsked&, const PlanAsked&) = default;
};
/// The answer, but for the moments that were due: they follow as fires and skips.
struct PlanTaken {
  std::string zone_data;
  std::string version;  // of the workflow, for runs from here on
  std::int64_t covered_ms = 0;
  bool more = false;
  std::optional<Occurrence> next;
  friend bool operator==(const PlanTaken&, const PlanTaken&) = default;
};
struct PlanFailed {
  base::Code code = base::Code::internal;
  std::string message;
  friend bool operator==(const PlanFailed&, const PlanFailed&) = default;
};
struct MomentsSkipped {
  SkipReason reason = SkipReason::late;
  Passed moments;
  std::string fire;  // the one that waited and no longer does; empty: none did
  friend bool operator==(const MomentsSkipped&, const MomentsSkipped&) = default;
};
struct Fired {
  Fire fire;
  std::string by;  // of a trigger
  friend bool operator==(const Fired&, const Fired&) = default;
};
struct BackfillAsked {
  std::uint64_t number = 0;
  std::int64_t from_ms = 0, to_ms = 0;  // both inclusive
  std::string by;
  friend bool operator==(const BackfillAsked&, const BackfillAsked&) = default;
};
struct ScheduledRunStarted {
  std::string fire;
  core::StreamId run;
  std::string version;  // of the workflow
  core::Token token;    // of the action that starts it and waits for its end
  friend bool operator==(const ScheduledRunStarted&, const ScheduledRunStarted&) = default;
};
/// The action has ended without knowing what became of the run: it is tried again.
struct ScheduledRunLost {
  std::string fire;
  core::Token token;
  friend bool operator==(const ScheduledRunLost&, const ScheduledRunLost&) = default;
};
struct ScheduledRunStopped {  // asked to
  std::string fire;
  bool terminate = false;
  friend bool operator==(const ScheduledRunStopped&, const ScheduledRunStopped&) = default;
};
struct ScheduledRunEnded {
  std::string fire;
  core::StreamId run;
  RunEnd how = RunEnd::completed;
  base::Code code = base::Code::ok;
  friend bool operator==(const ScheduledRunEnded&, const ScheduledRunEnded&) = default;
};

using Event = std::variant<ScheduleCreated, ScheduleUpdated, SchedulePaused, ScheduleResumed, ScheduleDeleted,
                           WakeSet, PlanAsked, PlanTaken, PlanFailed, MomentsSkipped, Fired, BackfillAsked,
                           ScheduledRunStarted, ScheduledRunLost, ScheduledRunStopped, ScheduledRunEnded>;

}  // namespace sandglass::engine::schedule
