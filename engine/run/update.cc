// Updates: accepted once workflow code has agreed, answered by it, never lost: one that is open when its run
// ends is told to be abandoned.
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status decide_update(Decision& d, const Update& command) {
  if (d.state().status == RunStatus::continued) {
    return base::fail(base::Code::run_closed,
                      "the run goes on as " + d.state().successor.text() + "; send the update there");
  }
  if (!d.state().open()) return base::fail(base::Code::run_closed, "the run has ended and takes no update");
  if (d.state().status == RunStatus::stuck) {
    return base::fail(base::Code::run_stuck, "the run is stuck and its code cannot take an update");
  }
  if (command.name.empty()) return base::fail(base::Code::invalid_argument, "an update needs a name");
  if (command.input && command.input.slot->bytes.size() > kMaxPayloadBytes) {
    return base::fail(base::Code::record_too_large,
                      "the update's input is larger than " + std::to_string(kMaxPayloadBytes) + " bytes");
  }
  d.emit(UpdateAccepted{d.state().last_update + 1, command.name, d.store(command.input)});
  d.activate();
  return {};
}

Status apply_command(Decision& d, const CompleteUpdate& command) {
  if (!d.state().updates.contains(command.number)) {
    return base::fail(base::Code::non_determinism,
                      "update " + std::to_string(command.number) + " does not wait for an answer");
  }
  d.emit(UpdateCompleted{command.number, command.code, d.store(command.result)});
  return {};
}

void release_updates(Decision& d) {
  std::vector<std::uint64_t> open;
  for (const auto& [number, name] : d.state().updates) open.push_back(number);
  for (const std::uint64_t number : open) d.emit(UpdateAbandoned{number});
}

void apply(State& state, const UpdateAccepted& event, const core::TurnInfo&) {
  state.last_update = event.number;
  state.updates[event.number] = event.name;
}
void apply(State& state, const UpdateCompleted& event, const core::TurnInfo&) {
  state.updates.erase(event.number);
}
void apply(State& state, const UpdateAbandoned& event, const core::TurnInfo&) {
  state.updates.erase(event.number);
}

}  // namespace sandglass::engine::run
