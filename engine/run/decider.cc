#include "engine/run/decider.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "engine/base/hash.h"
#include "engine/run/decision.h"

namespace sandglass::engine::run {
namespace {

template <class T, class... Among>
inline constexpr bool is_one_of = (std::is_same_v<T, Among> || ...);

/// Events that answer a workflow command each.
template <class E>
inline constexpr bool is_output =
    is_one_of<E, RunCompleted, RunFailed, RunCancelled, RunContinued, PhaseSet, PatchMarked, Checkpointed,
              StepScheduled, StepCancelled, TimerStarted, TimerCancelled, SignalTaken, UpdateCompleted,
              AttributesSet, ExchangeOpened, ExchangeWithdrawn, MessageSent, LeaseReleased,
              OperationScheduled, OperationCancelRequested, ChildScheduled, ChildCancelRequested>;
/// Events that workflow code sees.
template <class E>
inline constexpr bool is_input =
    is_one_of<E, RunStarted, CancelRequested, StepCompleted, StepFailed, TimerElapsed, SignalReceived,
              UpdateAccepted, ExchangeAnswered, LeaseClosed, OperationSettled, ChildEnded>;

Status decide_timer(Decision& d, const core::TimerFired& fired) {
  if (fired.key.size() > 2 && fired.key[1] == ':') {
    const std::string path = fired.key.substr(2);
    if (fired.key[0] == 't') return decide_workflow_timer(d, path);
    if (fired.key[0] == 's') return decide_step_timer(d, path);
    if (fired.key[0] == 'o') return decide_operation_timer(d, path);
    if (fired.key[0] == 'l') return decide_lease_timer(d, path);
  }
  return stale(fired.key);
}

Status decide_finished(Decision& d, const core::ActionFinished& finished) {
  if (d.state().steps.contains(finished.path)) return decide_step_finished(d, finished);
  if (d.state().operations.contains(finished.path))
    return decide_operation_finished(d, finished.path, finished);
  const std::string suffix = probe_path("");
  if (finished.path.ends_with(suffix)) {
    const std::string path = finished.path.substr(0, finished.path.size() - suffix.size());
    if (d.state().operations.contains(path)) return decide_operation_finished(d, path, finished);
  }
  return stale(finished.path);
}

bool starts(const Command& command) {
  if (std::holds_alternative<StartRun>(command)) return true;
  const auto* received = std::get_if<core::MessageReceived>(&command);
  return received != nullptr && std::holds_alternative<core::RunStartRequested>(received->message.body);
}

struct Decide {
  Decision& d;

  Status operator()(const StartRun& command) const { return decide_start(d, command); }
  Status operator()(const Signal& command) const { return decide_signal(d, command); }
  Status operator()(const Update& command) const { return decide_update(d, command); }
  Status operator()(const Cancel& command) const { return decide_cancel(d, command); }
  Status operator()(const Terminate& command) const { return decide_terminate(d, command); }
  Status operator()(const Resume& command) const { return decide_resume(d, command); }
  Status operator()(const ApplyActivation& command) const { return decide_activation(d, command); }
  Status operator()(const core::ActivationFailed& failed) const {
    return decide_activation(
        d,
        {.commands = {}, .stuck = StuckReport{.code = failed.error.code, .message = failed.error.message}});
  }
  Status operator()(const core::ActionFinished& finished) const { return decide_finished(d, finished); }
  Status operator()(const core::MessageReceived& received) const {
    return decide_message(d, received.message);
  }
  Status operator()(const core::TimerFired& fired) const { return decide_timer(d, fired); }
};

}  // namespace

base::Status RunDecider::decide(const State& state, const Command& command, const core::DecideInput& input,
                                core::TurnWriter<Event>& out) {
  if (state.status == RunStatus::none && !starts(command)) {
    return base::fail(base::Code::not_found, "there is no run " + input.stream.text());
  }
  Decision d(state, input, out);
  return std::visit(Decide{d}, command);
}

void RunDecider::evolve(State& state, const Event& event, const core::TurnInfo& info) {
  std::visit(
      [&]<class E>(const E& one) {
        apply(state, one, info);
        if constexpr (is_output<E>) {
          ++state.commands;
          state.owes_activation = false;
        } else if constexpr (is_input<E>) {
          state.owes_activation = state.open();
        }
      },
      event);
}

void RunDecider::pending(const State& state, const core::DecideInput& input,
                         std::vector<core::Action>& actions) {
  if (!state.open()) return;
  for (const auto& [path, step] : state.steps) {
    if (step.retry_due_ms == 0 && !waits_for_repair(state))
      actions.push_back(step_action(step, path, state, input));
  }
  for (const auto& [path, operation] : state.operations) operation_actions(path, state, input, actions);
}

bool RunDecider::in_flight(const State& state) {
  if (!state.open()) return false;
  if (owes_activation(state)) return true;
  for (const auto& [path, step] : state.steps) {
    if (step.retry_due_ms == 0) return true;
  }
  for (const auto& [path, operation] : state.operations) {
    if (operation_in_flight(operation)) return true;
  }
  return false;
}

bool RunDecider::owes_activation(const State& state) {
  return state.status == RunStatus::running && state.owes_activation;
}

std::vector<Command> RunDecider::split(const Command& command) {
  std::vector<Command> parts;
  const auto* whole = std::get_if<ApplyActivation>(&command);
  if (whole == nullptr || whole->commands.size() < 2) return parts;
  for (std::size_t i = 0; i < whole->commands.size(); ++i) {
    parts.push_back(
        ApplyActivation{.commands = {whole->commands[i]}, .more = i + 1 < whole->commands.size()});
  }
  return parts;
}

std::string operation_key(std::string_view effect_root, std::string_view path, std::uint32_t incarnation) {
  base::Sha256 hash;
  hash.update("sandglass operation key 1").update_u64(effect_root.size()).update(effect_root);
  return hash.update_u64(path.size()).update(path).update_u64(incarnation).finish().hex();
}

std::string step_key(const core::StreamId& stream, std::string_view path) {
  return stream.text() + "/" + std::string(path);
}

core::StreamId child_id(std::string_view effect_root, std::string_view path) {
  return core::StreamId::for_request(core::StreamKind::run, "child of " + std::string(effect_root), path);
}

core::StreamId successor_id(const core::StreamId& run) {
  return core::StreamId::for_request(core::StreamKind::run, "successor", run.text());
}

std::string question_path(std::string_view operation_path, std::uint32_t attempt) {
  return std::string(operation_path) + "?ask#" + std::to_string(attempt);
}

std::string probe_path(std::string_view operation_path) {
  return std::string(operation_path) + "?probe";
}

std::uint64_t seed_of(std::string_view path) {
  std::uint64_t seed = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : path) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return seed;
}

core::Action cancel_action(const std::string& path, const core::Token& token) {
  return {.kind = core::ActionKind::cancel, .path = path, .token = token};
}

}  // namespace sandglass::engine::run
