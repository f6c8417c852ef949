// Signals: numbered as they come, kept until the workflow takes them; parked and stuck runs receive them too
// (E8).
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status decide_signal(Decision& d, const Signal& command) {
  if (!d.state().open()) return base::fail(base::Code::run_closed, "the run has ended and takes no signal");
  if (command.name.empty()) return base::fail(base::Code::invalid_argument, "a signal needs a name");
  if (command.payload && command.payload.slot->bytes.size() > kMaxPayloadBytes) {
    return base::fail(base::Code::record_too_large,
                      "the signal's payload is larger than " + std::to_string(kMaxPayloadBytes) + " bytes");
  }
  d.emit(SignalReceived{d.state().last_signal + 1, command.name, d.store(command.payload)});
  d.activate();
  return {};
}

Status apply_command(Decision& d, const TakeSignal& command) {
  if (!d.state().signals.contains(command.number)) {
    return base::fail(base::Code::non_determinism,
                      "signal " + std::to_string(command.number) + " is not there to be taken");
  }
  d.emit(SignalTaken{command.path, command.number});
  return {};
}

void apply(State& state, const SignalReceived& event, const core::TurnInfo&) {
  state.last_signal = event.number;
  state.signals[event.number] = {event.name, event.payload};
}
void apply(State& state, const SignalTaken& event, const core::TurnInfo&) {
  state.signals.erase(event.number);
}

}  // namespace sandglass::engine::run
