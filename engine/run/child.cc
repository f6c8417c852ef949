// Child runs, as their parent has them. The child is another run: it is started, stopped and heard of by
// messages.
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status apply_command(Decision& d, const StartChild& command) {
  const State& state = d.state();
  if (state.children.contains(command.path)) {
    return base::fail(base::Code::non_determinism, "a child is open under path " + command.path);
  }
  const core::StreamId run = child_id(state.effect_root, command.path);
  const core::PayloadRef input = d.store(command.input);
  d.out().send(run, command.path,
               core::RunStartRequested{.workflow = command.workflow,
                                       .version = command.version,
                                       .tenant = state.tenant,
                                       .user = state.user,
                                       .session = state.session},
               command.input);
  d.emit(ChildScheduled{command.path, run, command.workflow, command.version, input, command.policy});
  return {};
}

/// One that has ended meanwhile is no error: the workflow had not seen it yet.
Status apply_command(Decision& d, const CancelChild& command) {
  const auto found = d.state().children.find(command.path);
  if (found != d.state().children.end() && !found->second.cancel_requested) {
    d.out().send(found->second.run, command.path, core::RunStopRequested{},
                 text_payload("the run that started it no longer wants it"));
  }
  d.emit(ChildCancelRequested{command.path});
  return {};
}

/// Also while the parent is stuck; it sees the end once it goes on.
Status decide_child_ended(Decision& d, const core::Message& message, const core::RunEnded& ended) {
  if (!d.state().open() || !d.state().children.contains(message.correlation))
    return stale(message.correlation);
  d.emit(ChildEnded{message.correlation, ended.how, ended.code, ended.side, ended.run,
                    d.store(message.payload), ended.message});
  d.activate();
  return {};
}

void apply(State& state, const ChildScheduled& event, const core::TurnInfo& info) {
  state.children[event.path] = {
      .run = event.run, .workflow = event.workflow, .policy = event.policy, .started_ms = info.time_ms};
}
void apply(State& state, const ChildCancelRequested& event, const core::TurnInfo&) {
  const auto found = state.children.find(event.path);
  if (found != state.children.end()) found->second.cancel_requested = true;
}
void apply(State& state, const ChildEnded& event, const core::TurnInfo&) {
  state.children.erase(event.path);
}

}  // namespace sandglass::engine::run
