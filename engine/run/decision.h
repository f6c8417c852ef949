// What the parts of the run decider share. Internal to engine/run.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/core/ports/running.h"
#include "engine/run/decider.h"

namespace sandglass::engine::run {

/// Text from outside as a payload; nothing compares it.
inline core::Payload text_payload(const std::string& text) {
  if (text.empty()) return {};
  constexpr std::size_t kMaxText = 16 * 1024;
  return {std::make_shared<const core::Slot>(core::Slot{core::Encoding::bytes, text.substr(0, kMaxText)}),
          {}};
}

/// One decide() call: the state that it sees, grown by what it emits where several commands are decided at
/// once.
class Decision {
 public:
  Decision(const State& state, const core::DecideInput& input, core::TurnWriter<Event>& out)
      : state_(&state), input_(input), out_(out) {}

  /// From now on state() shows what was emitted.
  void follow() {
    if (!own_) {
      own_ = *state_;
      state_ = &*own_;
    }
  }

  const State& state() const { return *state_; }
  const core::DecideInput& input() const { return input_; }
  std::int64_t now_ms() const { return input_.now_ms; }
  core::TurnWriter<Event>& out() { return out_; }

  void emit(Event event) {
    if (own_) RunDecider::evolve(*own_, event, {input_.seq, input_.now_ms, input_.epoch});
    out_.emit(std::move(event));
  }
  core::PayloadRef store(const core::Payload& payload) { return out_.store(payload); }
  /// Text from outside (an error message): a slot, since headers hold no user content. Nothing compares it.
  core::PayloadRef store_text(const std::string& text) { return out_.store(text_payload(text)); }
  /// Workflow code is to see what was emitted, unless it cannot run.
  void activate() {
    if (state().status == RunStatus::running || state().status == RunStatus::none) out_.activate();
  }

 private:
  const State* state_;
  std::optional<State> own_;
  const core::DecideInput& input_;
  core::TurnWriter<Event>& out_;
};

using base::Status;
inline std::unexpected<base::Error> stale(const std::string& path) {
  return base::fail(base::Code::stale_completion, "nothing waits for this any more under path " + path);
}

// Timer keys of the framework: one letter says whose it is.
inline std::string workflow_timer(std::string_view path) {
  return "t:" + std::string(path);
}
inline std::string step_timer(std::string_view path) {
  return "s:" + std::string(path);
}
inline std::string lease_timer(std::string_view path) {
  return "l:" + std::string(path);
}
inline std::string operation_timer(std::string_view path) {
  return "o:" + std::string(path);
}

inline core::Token token_of(const core::DecideInput& input, std::uint32_t attempt, std::uint64_t counter) {
  return {.epoch = input.epoch, .attempt = attempt, .counter = counter};
}
/// J8: only the attempt that is current, of the present owner.
inline bool is_current(const core::Token& token, const core::DecideInput& input, std::uint32_t attempt,
                       std::uint64_t counter) {
  return token.epoch == input.epoch && token.attempt == attempt && token.counter == counter;
}
/// Jitter's seed: a function of the path alone.
std::uint64_t seed_of(std::string_view path);

// What each entity decides. Workflow commands give a Status that is an error where the command makes no
// sense: the run is then stuck.
Status decide_start(Decision& d, const StartRun& command);
/// Whether the run can be started so, or has been.
Status check_start(const Decision& d, const StartRun& command);
void begin(Decision& d, const StartRun& command);
/// Of an open run.
void terminate(Decision& d, const core::Payload& reason);
void request_cancel(Decision& d, const core::Payload& reason);
void receive_signal(Decision& d, const std::string& name, const core::Payload& payload);
/// Start by message; what a run's end, and what comes after it, means to others.
Status decide_start_requested(Decision& d, const core::Message& message,
                              const core::RunStartRequested& request);
Status decide_stop_requested(Decision& d, const core::Message& message, const core::RunStopRequested& stop);
Status decide_signalled(Decision& d, const core::Message& message, const core::RunSignalled& signalled);
Status decide_awaited(Decision& d, const core::Message& message, const core::RunAwaited& awaited);
Status decide_child_ended(Decision& d, const core::Message& message, const core::RunEnded& ended);
/// The run has been continued: what came for it goes to its successor.
Status pass_on(Decision& d, std::string what, core::MessageBody body, core::Payload payload);
Status decide_signal(Decision& d, const Signal& command);
Status decide_update(Decision& d, const Update& command);
Status decide_cancel(Decision& d, const Cancel& command);
Status decide_terminate(Decision& d, const Terminate& command);
Status decide_resume(Decision& d, const Resume& command);
Status decide_activation(Decision& d, const ApplyActivation& command);
Status decide_message(Decision& d, const core::Message& message);
/// A person has said what became of an operation.
Status decide_outcome(Decision& d, const core::Message& message, const core::OutcomeDecided& decided);
Status decide_step_finished(Decision& d, const core::ActionFinished& finished);
Status decide_operation_finished(Decision& d, const std::string& path, const core::ActionFinished& finished);
Status decide_workflow_timer(Decision& d, const std::string& path);
Status decide_step_timer(Decision& d, const std::string& path);
Status decide_operation_timer(Decision& d, const std::string& path);
Status decide_lease_timer(Decision& d, const std::string& lease);

Status apply_command(Decision& d, const ScheduleStep& command);
Status apply_command(Decision& d, const CancelStep& command);
Status apply_command(Decision& d, const ScheduleOperation& command);
Status apply_command(Decision& d, const CancelOperation& command);
Status apply_command(Decision& d, const StartTimer& command);
Status apply_command(Decision& d, const CancelTimer& command);
Status apply_command(Decision& d, const TakeSignal& command);
Status apply_command(Decision& d, const OpenExchange& command);
Status apply_command(Decision& d, const WithdrawExchange& command);
Status apply_command(Decision& d, const SendMessage& command);
Status apply_command(Decision& d, const ReleaseLease& command);
Status apply_command(Decision& d, const StartChild& command);
Status apply_command(Decision& d, const CancelChild& command);
Status apply_command(Decision& d, const SetPhase& command);
Status apply_command(Decision& d, const MarkPatched& command);
Status apply_command(Decision& d, const Checkpoint& command);
Status apply_command(Decision& d, const SetAttributes& command);
Status apply_command(Decision& d, const CompleteUpdate& command);
Status apply_command(Decision& d, const CompleteRun& command);
Status apply_command(Decision& d, const FailRun& command);
Status apply_command(Decision& d, const ContinueAsNew& command);

/// Everything that a run leaves behind when it ends, whichever way (FR-67): actions cancelled, timers ended,
/// exchanges withdrawn, leases returned, children treated as their policy says, the end told to who asked for
/// the run, updates answered. Without `end` the run goes on as another, which tells it.
struct End {
  core::RunEnded body;
  core::Payload payload;
};
void release_all(Decision& d, const End* end);
void release_messages(Decision& d, const End* end);
void release_updates(Decision& d);
/// The stream of what waits for people.
core::StreamId inbox();
/// The state of an ended run.
void close_state(State& state, RunStatus status, const core::TurnInfo& info);

/// A step that ends the process parked the run: none of its steps is started before it is resumed (J13).
inline bool waits_for_repair(const State& state) {
  return state.status == RunStatus::stuck && !state.stuck.path.empty() &&
         state.stuck.code == core::kCrashesCode;
}

// Actions that are out, made again by pending() with tokens of the present owner.
core::Action step_action(const Step& step, const std::string& path, const State& state,
                         const core::DecideInput& input);
core::Action cancel_action(const std::string& path, const core::Token& token);
void operation_actions(const std::string& path, const State& state, const core::DecideInput& input,
                       std::vector<core::Action>& actions);
bool operation_in_flight(const Operation& operation);

// evolve(), by entity.
void apply(State& state, const RunStarted& event, const core::TurnInfo& info);
void apply(State& state, const RunCompleted& event, const core::TurnInfo& info);
void apply(State& state, const RunFailed& event, const core::TurnInfo& info);
void apply(State& state, const RunCancelled& event, const core::TurnInfo& info);
void apply(State& state, const RunTerminated& event, const core::TurnInfo& info);
void apply(State& state, const RunContinued& event, const core::TurnInfo& info);
void apply(State& state, const RunAsked& event, const core::TurnInfo& info);
void apply(State& state, const RunContinues& event, const core::TurnInfo& info);
void apply(State& state, const RunPassedOn& event, const core::TurnInfo& info);
void apply(State& state, const ChildScheduled& event, const core::TurnInfo& info);
void apply(State& state, const ChildCancelRequested& event, const core::TurnInfo& info);
void apply(State& state, const ChildEnded& event, const core::TurnInfo& info);
void apply(State& state, const RunStuck& event, const core::TurnInfo& info);
void apply(State& state, const RunResumed& event, const core::TurnInfo& info);
void apply(State& state, const CancelRequested& event, const core::TurnInfo& info);
void apply(State& state, const PhaseSet& event, const core::TurnInfo& info);
void apply(State& state, const PatchMarked& event, const core::TurnInfo& info);
void apply(State& state, const ActivationCut& event, const core::TurnInfo& info);
void apply(State& state, const ActivationTaken& event, const core::TurnInfo& info);
void apply(State& state, const Checkpointed& event, const core::TurnInfo& info);
void apply(State& state, const StepScheduled& event, const core::TurnInfo& info);
void apply(State& state, const StepCompleted& event, const core::TurnInfo& info);
void apply(State& state, const StepAttemptFailed& event, const core::TurnInfo& info);
void apply(State& state, const StepRetried& event, const core::TurnInfo& info);
void apply(State& state, const StepFailed& event, const core::TurnInfo& info);
void apply(State& state, const StepCancelled& event, const core::TurnInfo& info);
void apply(State& state, const TimerStarted& event, const core::TurnInfo& info);
void apply(State& state, const TimerElapsed& event, const core::TurnInfo& info);
void apply(State& state, const TimerCancelled& event, const core::TurnInfo& info);
void apply(State& state, const SignalReceived& event, const core::TurnInfo& info);
void apply(State& state, const SignalTaken& event, const core::TurnInfo& info);
void apply(State& state, const AttributesSet& event, const core::TurnInfo& info);
void apply(State& state, const UpdateAccepted& event, const core::TurnInfo& info);
void apply(State& state, const UpdateCompleted& event, const core::TurnInfo& info);
void apply(State& state, const UpdateAbandoned& event, const core::TurnInfo& info);
void apply(State& state, const ExchangeOpened& event, const core::TurnInfo& info);
void apply(State& state, const ExchangeProgressed& event, const core::TurnInfo& info);
void apply(State& state, const ExchangeAnswered& event, const core::TurnInfo& info);
void apply(State& state, const ExchangeWithdrawn& event, const core::TurnInfo& info);
void apply(State& state, const MessageSent& event, const core::TurnInfo& info);
void apply(State& state, const MessageIgnored& event, const core::TurnInfo& info);
void apply(State& state, const LeaseReleased& event, const core::TurnInfo& info);
void apply(State& state, const LeaseRenewed& event, const core::TurnInfo& info);
void apply(State& state, const LeaseClosed& event, const core::TurnInfo& info);
void apply(State& state, const OperationScheduled& event, const core::TurnInfo& info);
void apply(State& state, const OperationIntended& event, const core::TurnInfo& info);
void apply(State& state, const OperationAttemptFailed& event, const core::TurnInfo& info);
void apply(State& state, const OperationRequeued& event, const core::TurnInfo& info);
void apply(State& state, const OperationUnknown& event, const core::TurnInfo& info);
void apply(State& state, const OperationProbed& event, const core::TurnInfo& info);
void apply(State& state, const OperationProbeStarted& event, const core::TurnInfo& info);
void apply(State& state, const OperationDecided& event, const core::TurnInfo& info);
void apply(State& state, const OperationCancelRequested& event, const core::TurnInfo& info);
void apply(State& state, const OperationSettled& event, const core::TurnInfo& info);

}  // namespace sandglass::engine::run
