// Signals: numbered as they come, kept until the workflow takes them; parked and stuck runs receive them too
// (E8).
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status decide_signal(Decision& d, const Signal& command) {
  const bool continued = d.state().status == RunStatus::continued;
  if (!d.state().open() && !continued) {
    return base::fail(base::Code::run_closed, "the run has ended and takes no signal");
  }
  if (command.name.empty()) return base::fail(base::Code::invalid_argument, "a signal needs a name");
  if (command.payload && command.payload.slot->bytes.size() > kMaxPayloadBytes) {
    return base::fail(base::Code::record_too_large,
                      "the signal's payload is larger than " + std::to_string(kMaxPayloadBytes) + " bytes");
  }
  if (continued) {
    return pass_on(d, "signal " + command.name, core::RunSignalled{command.name}, command.payload);
  }
  receive_signal(d, command.name, command.payload);
  return {};
}

void receive_signal(Decision& d, const std::string& name, const core::Payload& payload) {
  d.emit(SignalReceived{d.state().last_signal + 1, name, d.store(payload)});
  d.activate();
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
