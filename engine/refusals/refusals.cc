#include "engine/refusals/refusals.h"

namespace sandglass::engine::refusals {

base::Status RefusalsDecider::decide(const State&, const Command& command, const core::DecideInput&,
                                     core::TurnWriter<Event>& turn) {
  const auto& note = std::get<NoteRefusal>(command);
  RefusalNoted event = note.refusal;
  event.details = turn.store(note.details);
  turn.emit(std::move(event));
  return {};
}

void RefusalsDecider::evolve(State& state, const Event& event, const core::TurnInfo& info) {
  ++state.noted;
  state.dropped += std::get<RefusalNoted>(event).dropped;
  state.newest_ms = info.time_ms;
}

core::StreamId refusals_stream() {
  return core::StreamId::named(core::StreamKind::refusals, "");
}

}  // namespace sandglass::engine::refusals
