// Operations: intent durable → effect → outcome durable (J16, J17). This file has the way of an operation
// whose outcomes are known; operation_recovery.cc has the other.
//
//   waiting ─reserve─▶ intended ─effect─▶ done · not_done → settled, or backoff ─timer─▶ waiting
//                         └──────────────▶ unknown → probing ⇄ probe_wait · backoff (resend) · asking
#include "engine/run/decision.h"
#include "engine/run/operation_recovery.h"

namespace sandglass::engine::run {
namespace {

core::Action reserve_action(const Operation& operation, const std::string& path, const std::string& key,
                            const core::DecideInput& input) {
  return {.kind = core::ActionKind::reserve,
          .name = operation.tool,
          .path = path,
          .token = token_of(input, operation.attempt, operation.counter),
          .key = key,
          .input = operation.input};
}

std::string key_of(const State& state, const std::string& path, const Operation& operation) {
  return operation_key(state.effect_root, path, operation.incarnation);
}

/// Ends the operation in a turn of its own: the workflow has not seen the activation's own record.
void end_soon(Decision& d, const std::string& path, const Operation& operation) {
  if (operation.timer_due_ms != 0) d.out().end_timer(operation_timer(path), operation.timer_due_ms);
  d.out().start_timer(operation_timer(path), d.now_ms());
}

Status on_reserved(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  const Operation& operation = d.state().operations.find(path)->second;
  if (operation.status == OperationStatus::intended && operation.intended_epoch < d.input().epoch) {
    return on_owner_lost(d, path);
  }
  if (operation.status != OperationStatus::waiting) return stale(path);
  if (finished.outcome != core::Outcome::done) {  // nothing was sent: refused before any intent
    settle(d, path, core::Outcome::not_done, finished);
    return {};
  }
  const std::string key = key_of(d.state(), path, operation);
  d.emit(OperationIntended{path, operation.attempt, key});
  d.out().act({.kind = core::ActionKind::effect,
               .name = operation.tool,
               .path = path,
               .token = token_of(d.input(), operation.attempt, d.input().seq),
               .key = key,
               .input = operation.input,
               .start_to_close_ms = operation.options.attempt_timeout_ms,
               .permit_ms = operation.options.permit_ms});
  return {};
}

Status on_effect(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  const Operation& operation = d.state().operations.find(path)->second;
  if (operation.status != OperationStatus::intended) return stale(path);
  switch (finished.outcome) {
    case core::Outcome::done:
      settle(d, path, core::Outcome::done, finished);
      break;
    case core::Outcome::not_done:
      on_not_done(d, path, finished);
      break;
    case core::Outcome::unknown:
      on_unknown(d, path, finished);
      break;
  }
  return {};
}

}  // namespace

void settle(Decision& d, const std::string& path, core::Outcome outcome,
            const core::ActionFinished& finished) {
  OperationSettled event{.path = path, .outcome = outcome, .side = finished.side};
  event.code = outcome == core::Outcome::done ? base::Code::ok : finished.code;
  if (finished.result && finished.result.slot->bytes.size() > kMaxPayloadBytes) {
    event.message =
        d.store_text("the answer was too large to be recorded");  // what happened stays what it is
  } else {
    event.result = d.store(finished.result);
    event.message = d.store_text(finished.message);
  }
  d.emit(std::move(event));
  d.activate();
}

void on_not_done(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  const Operation& operation = d.state().operations.find(path)->second;
  const auto& retry = operation.options.retry;
  const bool left = retry.max_attempts == 0 || operation.attempt < retry.max_attempts;
  if (operation.unknown_since_ms != 0 && operation.options.recovery == Recovery::resend &&
      finished.code != base::Code::effect_refused) {
    on_unknown(d, path, finished);  // about this attempt only: an earlier one is still in doubt
    return;
  }
  // A permit that ran out says nothing about the target, but it counts: else a stalled executor is a busy
  // loop.
  if (operation.cancel_requested || !left || !finished.retryable) {
    settle(d, path, core::Outcome::not_done, finished);
    return;
  }
  const std::int64_t next = d.now_ms() + core::retry_delay_ms(retry, operation.attempt, seed_of(path));
  d.out().start_timer(operation_timer(path), next);
  d.emit(OperationAttemptFailed{path, operation.attempt, finished.code, finished.side, next,
                                d.store_text(finished.message)});
}

Status apply_command(Decision& d, const ScheduleOperation& command) {
  if (d.state().operations.contains(command.path)) {
    return base::fail(base::Code::non_determinism, "an operation is open under path " + command.path);
  }
  const auto settled = d.state().settled_operations.find(command.path);
  const bool conflict =
      settled != d.state().settled_operations.end();  // O3: the key stays bound to its arguments
  if (conflict && settled->second == command.input.digest) {
    return base::fail(base::Code::non_determinism, "the operation was settled already: path " + command.path);
  }
  Operation operation{.tool = command.tool,
                      .input = d.store(command.input),
                      .options = command.options,
                      .counter = d.input().seq};
  if (conflict) {
    end_soon(d, command.path, operation);
  } else {
    core::Action action =
        reserve_action(operation, command.path, key_of(d.state(), command.path, operation), d.input());
    action.input_slot = command.input.slot;
    d.out().act(std::move(action));
  }
  d.emit(OperationScheduled{command.path, command.tool, operation.input, command.options, conflict});
  return {};
}

/// What is not out yet ends; what is goes on to its outcome, since it may happen.
Status apply_command(Decision& d, const CancelOperation& command) {
  const auto found = d.state().operations.find(command.path);
  if (found != d.state().operations.end()) {
    const Operation& operation = found->second;
    if (operation.status == OperationStatus::waiting) {
      d.out().act(cancel_action(command.path, token_of(d.input(), operation.attempt, operation.counter)));
    }
    if (operation.status == OperationStatus::asking) withdraw_question(d, command.path, operation);
    if (ends_on_cancel(operation)) end_soon(d, command.path, operation);
  }
  d.emit(OperationCancelRequested{command.path});
  return {};
}

Status decide_operation_finished(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  const Operation& operation = d.state().operations.find(path)->second;
  if (!d.state().open() || !is_current(finished.token, d.input(), operation.attempt, operation.counter)) {
    return stale(path);
  }
  switch (finished.kind) {
    case core::ActionKind::reserve:
      return on_reserved(d, path, finished);
    case core::ActionKind::effect:
      return on_effect(d, path, finished);
    case core::ActionKind::start:
      return on_probed(d, path, finished);
    case core::ActionKind::cancel:
    case core::ActionKind::settled:
      break;
  }
  return stale(path);
}

Status decide_operation_timer(Decision& d, const std::string& path) {
  const auto found = d.state().operations.find(path);
  if (!d.state().open() || found == d.state().operations.end() || found->second.timer_due_ms == 0)
    return stale(path);
  Operation operation = found->second;
  switch (operation.status) {
    case OperationStatus::backoff:
      d.emit(OperationRequeued{path});
      ++operation.attempt;
      operation.counter = d.input().seq;
      d.out().act(reserve_action(operation, path, key_of(d.state(), path, operation), d.input()));
      return {};
    case OperationStatus::probe_wait:
      d.emit(OperationProbeStarted{path});
      operation.counter = d.input().seq;
      d.out().act(probe_action(operation, path, key_of(d.state(), path, operation), d.input()));
      return {};
    case OperationStatus::ending: {
      const bool in_doubt = operation.unknown_since_ms != 0;
      settle(d, path, in_doubt ? core::Outcome::unknown : core::Outcome::not_done,
             {.code = operation.end_code});
      return {};
    }
    default:
      return stale(path);
  }
}

void operation_actions(const std::string& path, const State& state, const core::DecideInput& input,
                       std::vector<core::Action>& actions) {
  const Operation& operation = state.operations.find(path)->second;
  const std::string key = key_of(state, path, operation);
  if (operation.status == OperationStatus::waiting) {
    actions.push_back(reserve_action(operation, path, key, input));
  } else if (operation.status == OperationStatus::intended) {
    // Never performed again by a new owner: once there is a place, the outcome is declared unknown
    // (on_owner_lost).
    actions.push_back(reserve_action(operation, path, key, input));
  } else if (operation.status == OperationStatus::probing) {
    actions.push_back(probe_action(operation, path, key, input));
  }
}

bool operation_in_flight(const Operation& operation) {
  return operation.status == OperationStatus::waiting || operation.status == OperationStatus::intended ||
         operation.status == OperationStatus::probing;
}

void apply(State& state, const OperationScheduled& event, const core::TurnInfo& info) {
  Operation operation{
      .tool = event.tool, .input = event.input, .options = event.options, .counter = info.seq};
  if (event.conflict) {
    operation.status = OperationStatus::ending;
    operation.end_code = base::Code::operation_conflict;
    operation.timer_due_ms = info.time_ms;
  }
  state.operations[event.path] = std::move(operation);
}
void apply(State& state, const OperationIntended& event, const core::TurnInfo& info) {
  Operation& operation = state.operations[event.path];
  operation.status = OperationStatus::intended;
  operation.counter = info.seq;
  operation.intended_epoch = info.epoch;
  operation.intended_ms = info.time_ms;
  operation.probes_failed = 0;
}
void apply(State& state, const OperationAttemptFailed& event, const core::TurnInfo&) {
  Operation& operation = state.operations[event.path];
  operation.status = OperationStatus::backoff;
  operation.timer_due_ms = event.next_ms;
  operation.unknown_since_ms = 0;
}
void apply(State& state, const OperationRequeued& event, const core::TurnInfo& info) {
  Operation& operation = state.operations[event.path];
  operation.status = OperationStatus::waiting;
  operation.timer_due_ms = 0;
  ++operation.attempt;
  operation.counter = info.seq;
}
void apply(State& state, const OperationCancelRequested& event, const core::TurnInfo& info) {
  const auto found = state.operations.find(event.path);
  if (found == state.operations.end()) return;
  Operation& operation = found->second;
  operation.cancel_requested = true;
  if (!ends_on_cancel(operation)) return;
  operation.end_code =
      operation.unknown_since_ms != 0 ? base::Code::operation_unknown : base::Code::cancelled;
  operation.status = OperationStatus::ending;
  operation.timer_due_ms = info.time_ms;
}
void apply(State& state, const OperationSettled& event, const core::TurnInfo&) {
  const auto found = state.operations.find(event.path);
  if (found == state.operations.end()) return;
  state.settled_operations.insert({event.path, found->second.input.digest});
  state.operations.erase(found);
}

}  // namespace sandglass::engine::run
