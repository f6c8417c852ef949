// What a workflow says of its run. The state knows only where the newest stands; the view has it from there.
#include "engine/run/attributes.h"

#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status apply_command(Decision& d, const SetAttributes& command) {
  d.emit(AttributesSet{command.path, d.store(command.attributes)});
  return {};
}

void apply(State& state, const AttributesSet& event, const core::TurnInfo&) {
  state.attributes = event.attributes;
}

}  // namespace sandglass::engine::run
