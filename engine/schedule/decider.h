// The schedule decider (E9, K5): one stream a schedule.
//
//   timer "@wake" ─▶ PlanAsked ─▶ action "schedule.plan" ─▶ PlanTaken, and for each moment a fire or a skip
//                                          ├─ Fired ─▶ waits ─▶ ScheduledRunStarted, action "schedule.run"
//                                          └─ MomentsSkipped{reason, count}
//   the action ends with the run ─▶ ScheduledRunEnded ─▶ the next that waits
//
// A wake-up is a hint: which moments have come is asked anew each time, and each moment is decided once,
// since `covered_ms` only grows (FR-51, FR-52). The timer is of the calendar: a clock that is set back makes
// it wait, one that is set forward makes it catch up.
//
// Fires that overlap an open run do as the definition says. A trigger and a backfill wait for their turn, and
// run also while the schedule is paused; a trigger is refused where its overlap is `skip`. Deleting ends
// no run.
//
// Actions: path "plan" with a Question's text, answered by bytes: the workflow's version, a line break, a
// Plan's text. Path "run/" + fire with the runs' input starts the run that the state names, or attaches to
// it, and is answered when it has ended, by bytes: how, a blank, the number of the code; cancelling the
// action stops the run. A plan that fails is asked for again after a minute, a run that is lost after a
// second.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/decider.h"
#include "engine/schedule/events.h"

namespace sandglass::engine::schedule {

inline constexpr std::int64_t kRetryMs = 60'000;
/// What is due this long ago is not late whatever the window is: it is now.
inline constexpr std::int64_t kNowMs = 10'000;
inline constexpr std::uint32_t kBackfilledAtOnce = 20;
inline constexpr std::int64_t kAttachAgainMs = 1000;
inline constexpr std::size_t kMostInputBytes = 256 * 1024;
inline constexpr const char* kRunPath = "run/";

enum class Stage : std::uint8_t { none = 0, active = 1, paused = 2, deleted = 3 };

struct OpenRun {
  Fire fire;
  core::StreamId run;
  std::string version;
  core::Token token;
  std::int64_t started_ms = 0;  // the engine's time
  bool stopped = false;         // asked to end
  friend bool operator==(const OpenRun&, const OpenRun&) = default;
};

struct Backfill {
  std::uint64_t number = 0;
  std::int64_t after_ms = 0;  // moments up to here are decided
  std::int64_t to_ms = 0;
  friend bool operator==(const Backfill&, const Backfill&) = default;
};

/// One line of what happened lately.
struct Recent {
  std::int64_t at_ms = 0;  // the engine's time
  std::string fire;        // of a run; empty: a skip
  core::StreamId run;
  bool ended = false;
  RunEnd how = RunEnd::completed;
  base::Code code = base::Code::ok;
  SkipReason reason = SkipReason::late;
  Passed skipped;
  friend bool operator==(const Recent&, const Recent&) = default;
};

struct State {
  Stage stage = Stage::none;
  std::uint64_t incarnation = 0;  // how often it was created
  Definition definition;
  std::string by;  // who changed it last
  std::int64_t changed_ms = 0, paused_ms = 0;
  std::string zone_data, version;

  std::int64_t covered_ms = 0;      // each moment up to here is decided
  std::int64_t pause_until_ms = 0;  // moments up to here were passed over by a pause; 0: none
  bool wants_plan = false;
  std::optional<Occurrence> next;
  std::int64_t wake_ms = 0;  // of the timer; 0: none
  std::optional<PlanAsked> asked;
  base::Code problem = base::Code::ok;
  std::string problem_text;

  std::deque<Fire> waiting;
  std::map<std::string, OpenRun> open;  // by fire
  std::deque<Backfill> backfills;
  std::uint64_t last_number = 0;  // of triggers and backfills

  std::uint64_t fired = 0;  // by the schedule itself
  std::uint64_t started = 0, completed = 0, not_completed = 0;
  std::array<std::uint64_t, kSkipReasons> skipped{};  // by reason, from 1
  std::deque<Recent> recent;
  friend bool operator==(const State&, const State&) = default;

  bool used_up() const { return definition.runs != 0 && fired >= definition.runs; }
};

// Commands. `input` without a slot: none.
struct CreateSchedule {
  Definition definition;
  core::Payload input;
  std::string by;
};
/// `keep_input`: the runs' input stays as it is.
struct UpdateSchedule {
  Definition definition;
  core::Payload input;
  bool keep_input = false;
  std::string by;
};
struct PauseSchedule {
  std::string by;
};
struct ResumeSchedule {
  std::string by;
};
struct DeleteSchedule {
  std::string by;
};
struct TriggerSchedule {
  std::string by;
};
struct BackfillSchedule {
  std::int64_t from_ms = 0, to_ms = 0;
  std::string by;
};
using Command = std::variant<CreateSchedule, UpdateSchedule, PauseSchedule, ResumeSchedule, DeleteSchedule,
                             TriggerSchedule, BackfillSchedule, core::ActionFinished, core::TimerFired>;

struct ScheduleDecider {
  using State = schedule::State;
  using Event = schedule::Event;
  using Command = schedule::Command;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& writer);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State& state, const core::DecideInput& input, std::vector<core::Action>& actions);
  static bool in_flight(const State& state) { return state.asked || !state.open.empty(); }
};

/// "failed 1211", as the answer of a run's action.
std::string encode_end(RunEnd how, base::Code code);

/// Whether a definition can be that of a schedule; its zone's name and its workflow are not looked up.
base::Status check_definition(const Definition& definition);

}  // namespace sandglass::engine::schedule
