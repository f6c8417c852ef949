// An activation's output: one event for each command, in order. Output that makes no sense parks the run
// instead of being lost (FR-65).
#include "engine/run/decision.h"

namespace sandglass::engine::run {
namespace {

std::string path_of(const WorkflowCommand& command) {
  return std::visit(
      [](const auto& one) -> std::string {
        if constexpr (requires { one.path; }) {
          return one.path;
        } else {
          return {};
        }
      },
      command);
}

}  // namespace

Status decide_activation(Decision& d, const ApplyActivation& command) {
  if (d.state().status != RunStatus::running) {
    return base::fail(base::Code::head_moved, "the run does not take an activation's output now: it is " +
                                                  std::string(name_of(d.state().status)));
  }
  if (command.stuck) {
    d.emit(RunStuck{*command.stuck});
    return {};
  }
  if (command.commands.empty()) {
    // Worth a record only if the run would otherwise count as in flight for ever.
    if (!d.state().owes_activation) return {};
    State without = d.state();
    without.owes_activation = false;
    if (!RunDecider::in_flight(without)) d.emit(ActivationTaken{});
    return {};
  }
  if (command.commands.size() > 1) d.follow();
  for (const WorkflowCommand& one : command.commands) {
    const Status applied =
        d.state().open()
            ? std::visit([&](const auto& concrete) { return apply_command(d, concrete); }, one)
            : Status(base::fail(base::Code::non_determinism, "the workflow goes on after its end"));
    if (applied) continue;
    d.emit(RunStuck{{.code = applied.error().code,
                     .expected = {},
                     .actual = {},
                     .event_seq = 0,
                     .path = path_of(one),
                     .message = applied.error().message}});
    return {};
  }
  if (command.more) d.emit(ActivationCut{});
  return {};
}

void apply(State& state, const ActivationCut&, const core::TurnInfo&) {
  state.owes_activation = state.open();
}
void apply(State& state, const ActivationTaken&, const core::TurnInfo&) {
  state.owes_activation = false;
}

}  // namespace sandglass::engine::run
