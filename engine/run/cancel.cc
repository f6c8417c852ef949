// Cancel requests, phases and patch marks: what is neither a wait nor an end.
#include "engine/run/decision.h"

namespace sandglass::engine::run {

/// Asking twice changes nothing. A stuck run remembers it for when it goes on; Terminate ends it at once.
Status decide_cancel(Decision& d, const Cancel& command) {
  const core::Payload reason = text_payload(command.reason);
  if (d.state().status == RunStatus::continued) return pass_on(d, "cancel", core::RunStopRequested{}, reason);
  if (!d.state().open()) return base::fail(base::Code::run_closed, "the run has ended already");
  request_cancel(d, reason);
  return {};
}

void request_cancel(Decision& d, const core::Payload& reason) {
  if (d.state().cancel_requested) return;
  d.emit(CancelRequested{d.store(reason)});
  d.activate();
}

Status apply_command(Decision& d, const SetPhase& command) {
  d.emit(PhaseSet{command.path, command.phase});
  return {};
}

Status apply_command(Decision& d, const MarkPatched& command) {
  d.emit(PatchMarked{command.id});
  return {};
}

void apply(State& state, const CancelRequested&, const core::TurnInfo&) {
  state.cancel_requested = true;
}
void apply(State& state, const PhaseSet& event, const core::TurnInfo&) {
  state.phase = event.phase;
}
void apply(State& state, const PatchMarked& event, const core::TurnInfo&) {
  state.patched.insert(event.id);
}

}  // namespace sandglass::engine::run
