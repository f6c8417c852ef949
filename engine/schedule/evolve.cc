// What each event makes of the state; what happened lately and the counters with it.
#include <algorithm>

#include "engine/schedule/decider.h"

namespace sandglass::engine::schedule {
namespace {

void remember(State& state, Recent recent) {
  state.recent.push_back(std::move(recent));
  if (state.recent.size() > kRecentKept) state.recent.pop_front();
}

/// Moments from here on count; what was planned does not.
void begin_at(State& state, std::int64_t from_ms) {
  state.covered_ms = from_ms;
  state.pause_until_ms = 0;
  state.next.reset();
  state.wants_plan = true;
  state.asked.reset();
}

struct Evolve {
  State& state;
  const core::TurnInfo& info;

  void operator()(const ScheduleCreated& event) {
    State fresh;
    fresh.incarnation = state.incarnation + 1;
    fresh.last_number = state.last_number;
    fresh.wake_ms = state.wake_ms;
    fresh.open = std::move(state.open);  // those of a former one that was deleted still tell their ends
    state = std::move(fresh);
    state.stage = Stage::active;
    define(event.definition, event.by, event.from_ms);
  }
  void operator()(const ScheduleUpdated& event) { define(event.definition, event.by, event.from_ms); }
  void operator()(const SchedulePaused& event) {
    state.stage = Stage::paused;
    state.paused_ms = info.time_ms;
    changed(event.by);
    if (state.asked && !state.asked->backfill) {
      state.asked.reset();
      state.wants_plan = true;
    }
  }
  void operator()(const ScheduleResumed& event) {
    state.stage = Stage::active;
    state.paused_ms = 0;
    state.pause_until_ms = event.until_ms;
    state.wants_plan = true;
    changed(event.by);
  }
  void operator()(const ScheduleDeleted& event) {
    state.stage = Stage::deleted;
    state.asked.reset();
    state.next.reset();
    state.wants_plan = false;
    state.waiting.clear();
    state.backfills.clear();
    changed(event.by);
  }
  void operator()(const WakeSet& event) { state.wake_ms = event.due_ms; }
  void operator()(const PlanAsked& event) {
    state.asked = event;
    if (!event.backfill) state.wants_plan = false;
  }
  void operator()(const PlanTaken& event) {
    const bool backfill = state.asked && state.asked->backfill;
    state.asked.reset();
    state.zone_data = event.zone_data;
    state.version = event.version;
    state.problem = base::Code::ok;
    state.problem_text.clear();
    if (backfill) {
      if (state.backfills.empty()) return;
      state.backfills.front().after_ms = event.covered_ms;
      if (!event.more) state.backfills.pop_front();
      return;
    }
    state.covered_ms = event.covered_ms;
    state.next = event.next;
    state.wants_plan = event.more;
    if (!event.more) state.pause_until_ms = 0;
  }
  void operator()(const PlanFailed& event) {
    if (state.asked && !state.asked->backfill) state.wants_plan = true;
    state.asked.reset();
    state.problem = event.code;
    state.problem_text = event.message;
  }
  void operator()(const MomentsSkipped& event) {
    const auto reason = static_cast<std::size_t>(event.reason) - 1;
    state.skipped[reason] += event.moments.count;
    if (!event.fire.empty())
      std::erase_if(state.waiting, [&](const Fire& fire) { return fire.id == event.fire; });
    remember(state, {.at_ms = info.time_ms, .reason = event.reason, .skipped = event.moments});
  }
  void operator()(const Fired& event) {
    if (event.fire.cause == Cause::schedule) ++state.fired;
    if (event.fire.cause == Cause::trigger) ++state.last_number;
    state.waiting.push_back(event.fire);
  }
  void operator()(const BackfillAsked& event) {
    state.last_number = event.number;
    state.backfills.push_back({event.number, event.from_ms - 1, event.to_ms});
  }
  void operator()(const ScheduledRunStarted& event) {
    const auto waits =
        std::ranges::find_if(state.waiting, [&](const Fire& fire) { return fire.id == event.fire; });
    if (waits == state.waiting.end()) return;
    state.open[event.fire] = {.fire = *waits,
                              .run = event.run,
                              .version = event.version,
                              .token = event.token,
                              .started_ms = info.time_ms};
    state.waiting.erase(waits);
    ++state.started;
    remember(state, {.at_ms = info.time_ms, .fire = event.fire, .run = event.run});
  }
  void operator()(const ScheduledRunLost& event) {
    const auto found = state.open.find(event.fire);
    if (found != state.open.end()) found->second.token = event.token;
  }
  void operator()(const ScheduledRunStopped& event) {
    const auto found = state.open.find(event.fire);
    if (found != state.open.end()) found->second.stopped = true;
  }
  void operator()(const ScheduledRunEnded& event) {
    state.open.erase(event.fire);
    ++(event.how == RunEnd::completed ? state.completed : state.not_completed);
    remember(state, {.at_ms = info.time_ms,
                     .fire = event.fire,
                     .run = event.run,
                     .ended = true,
                     .how = event.how,
                     .code = event.code});
  }

 private:
  void changed(const std::string& by) {
    state.by = by;
    state.changed_ms = info.time_ms;
  }
  void define(const Definition& definition, const std::string& by, std::int64_t from_ms) {
    state.definition = definition;
    state.problem = base::Code::ok;
    state.problem_text.clear();
    begin_at(state, from_ms);
    changed(by);
  }
};

}  // namespace

void ScheduleDecider::evolve(State& state, const Event& event, const core::TurnInfo& info) {
  std::visit(Evolve{state, info}, event);
}

}  // namespace sandglass::engine::schedule
