// Timers of workflow code: durable, from milliseconds to years.
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status apply_command(Decision& d, const StartTimer& command) {
  if (d.state().timers.contains(command.path)) {
    return base::fail(base::Code::non_determinism, "a timer is open under path " + command.path);
  }
  d.out().start_timer(workflow_timer(command.path), command.due_ms);
  d.emit(TimerStarted{command.path, command.due_ms});
  return {};
}

/// Cancelling one that has fired changes nothing (FR-32).
Status apply_command(Decision& d, const CancelTimer& command) {
  const auto found = d.state().timers.find(command.path);
  if (found != d.state().timers.end()) d.out().end_timer(workflow_timer(command.path), found->second);
  d.emit(TimerCancelled{command.path});
  return {};
}

Status decide_workflow_timer(Decision& d, const std::string& path) {
  if (!d.state().open() || !d.state().timers.contains(path)) return stale(path);
  d.emit(TimerElapsed{path});
  d.activate();
  return {};
}

void apply(State& state, const TimerStarted& event, const core::TurnInfo&) {
  state.timers[event.path] = event.due_ms;
}
void apply(State& state, const TimerElapsed& event, const core::TurnInfo&) {
  state.timers.erase(event.path);
}
void apply(State& state, const TimerCancelled& event, const core::TurnInfo&) {
  state.timers.erase(event.path);
}

}  // namespace sandglass::engine::run
