// Checkpoints: a restart point with the workflow's own state; history before it is never needed again (J15).
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status apply_command(Decision& d, const Checkpoint& command) {
  const State& state = d.state();
  if (!state.steps.empty() || !state.timers.empty() || !state.operations.empty() ||
      !state.exchanges.empty() || !state.updates.empty()) {
    return base::fail(base::Code::checkpoint_misplaced,
                      "a checkpoint with something open: each step, timer, "
                      "operation, exchange and update must have ended");
  }
  Checkpointed event{.generation = state.generation + 1,
                     .schema_version = command.schema_version,
                     .workflow_version = state.version,
                     .state = d.store(command.state),
                     .signals = {}};
  for (const CarriedSignal& signal : command.signals) {
    event.signals.push_back({signal.number, signal.name, d.store(signal.payload)});
  }
  d.emit(std::move(event));
  return {};
}

void apply(State& state, const Checkpointed& event, const core::TurnInfo& info) {
  state.generation = event.generation;
  state.restart_seq = info.seq;
  state.settled_operations.clear();  // keys have the generation in them
  for (const auto& signal : event.signals) {
    const auto found = state.signals.find(signal.number);
    if (found != state.signals.end()) found->second.payload = signal.payload;
  }
}

}  // namespace sandglass::engine::run
