// Start, the four ends and being stuck. All ends share one way out (FR-67).
#include "engine/run/decision.h"

namespace sandglass::engine::run {

bool is_same_start(const State& state, const StartRun& command) {
  return state.workflow == command.workflow && state.tenant == command.tenant &&
         state.input.digest == command.input.digest;
}

Status check_start(const Decision& d, const StartRun& command) {
  if (d.state().status != RunStatus::none && !is_same_start(d.state(), command)) {
    return base::fail(base::Code::run_exists, "run " + d.input().stream.text() +
                                                  " exists with another workflow or input; use another id");
  }
  if (command.workflow.empty())
    return base::fail(base::Code::invalid_argument, "a run needs a workflow's name");
  if (command.input && command.input.slot->bytes.size() > kMaxPayloadBytes) {
    return base::fail(base::Code::record_too_large,
                      "the run's input is larger than " + std::to_string(kMaxPayloadBytes) + " bytes");
  }
  return {};
}

void begin(Decision& d, const StartRun& command) {
  const std::string own = d.input().stream.text();
  d.emit(RunStarted{command.workflow, command.version, command.tenant, command.user, command.session,
                    command.history_root.empty() ? own : command.history_root,
                    command.effect_root.empty() ? own : command.effect_root, d.store(command.input)});
  d.activate();
}

Status decide_start(Decision& d, const StartRun& command) {
  if (auto status = check_start(d, command); !status) return status;
  if (d.state().status == RunStatus::none) begin(d, command);  // FR-16: else attach
  return {};
}

Status decide_resume(Decision& d, const Resume& command) {
  if (!d.state().open()) return base::fail(base::Code::run_closed, "the run has ended");
  if (d.state().status != RunStatus::stuck) return {};
  const bool steps_wait = waits_for_repair(d.state());
  d.emit(RunResumed{command.version});
  for (const auto& [path, step] : d.state().steps) {
    if (steps_wait && step.retry_due_ms == 0) d.out().act(step_action(step, path, d.state(), d.input()));
  }
  d.out().activate();
  return {};
}

Status decide_terminate(Decision& d, const Terminate& command) {
  const core::Payload reason = text_payload(command.reason);
  if (d.state().status == RunStatus::continued) {
    return pass_on(d, "terminate", core::RunStopRequested{.terminate = true}, reason);
  }
  if (!d.state().open()) return base::fail(base::Code::run_closed, "the run has ended already");
  terminate(d, reason);
  return {};
}

void terminate(Decision& d, const core::Payload& reason) {
  RunTerminated event{.abandoned = {}, .reason = d.store(reason)};
  for (const auto& [path, operation] : d.state().operations) {
    if (operation.unknown_since_ms != 0 || operation.status == OperationStatus::intended) {
      event.abandoned.push_back(path);
    }
  }
  const End end{{.how = core::RunEnd::terminated,
                 .code = base::Code::run_closed,
                 .side = core::FailureSide::user,
                 .run = d.input().stream,
                 .result = event.reason,
                 .message = {}},
                reason};
  release_all(d, &end);
  d.emit(std::move(event));
}

void release_all(Decision& d, const End* end) {
  const State& state = d.state();
  for (const auto& [path, step] : state.steps) {
    if (step.retry_due_ms != 0) {
      d.out().end_timer(step_timer(path), step.retry_due_ms);
    } else {
      d.out().act(cancel_action(path, token_of(d.input(), step.attempt, step.counter)));
    }
  }
  for (const auto& [path, due_ms] : state.timers) d.out().end_timer(workflow_timer(path), due_ms);
  for (const auto& [path, operation] : state.operations) {
    if (operation.timer_due_ms != 0) d.out().end_timer(operation_timer(path), operation.timer_due_ms);
    if (!operation_in_flight(operation)) continue;
    const std::string action = operation.status == OperationStatus::probing ? probe_path(path) : path;
    d.out().act(cancel_action(action, token_of(d.input(), operation.attempt, operation.counter)));
  }
  release_messages(d, end);
  release_updates(d);
}

Status apply_command(Decision& d, const CompleteRun& command) {
  if (!d.state().operations.empty()) {
    return base::fail(base::Code::non_determinism, "the workflow returned while an operation is open: " +
                                                       d.state().operations.begin()->first);
  }
  const core::PayloadRef result = d.store(command.result);
  const End end{{.how = core::RunEnd::completed,
                 .code = base::Code::ok,
                 .side = core::FailureSide::user,
                 .run = d.input().stream,
                 .result = result,
                 .message = {}},
                command.result};
  release_all(d, &end);
  d.emit(RunCompleted{result});
  return {};
}

Status apply_command(Decision& d, const FailRun& command) {
  if (!d.state().operations.empty()) {
    return base::fail(base::Code::non_determinism, "the workflow returned while an operation is open: " +
                                                       d.state().operations.begin()->first);
  }
  const core::PayloadRef details = d.store(command.details);
  const bool cancelled = d.state().cancel_requested && command.code == base::Code::cancelled;
  const End end{{.how = cancelled ? core::RunEnd::cancelled : core::RunEnd::failed,
                 .code = command.code,
                 .side = command.side,
                 .run = d.input().stream,
                 .result = details,
                 .message = {}},
                command.details};
  release_all(d, &end);
  if (cancelled) {
    d.emit(RunCancelled{details});
  } else {
    d.emit(RunFailed{command.code, command.side, details});
  }
  return {};
}

void close_state(State& state, RunStatus status, const core::TurnInfo& info) {
  state.status = status;
  state.phase = Phase::done;
  state.closed_ms = info.time_ms;
  state.owes_activation = false;
  state.stuck = {};
  state.stuck_since_ms = 0;
  state.steps.clear();
  state.timers.clear();
  state.operations.clear();
  state.settled_operations.clear();
  state.exchanges.clear();
  state.signals.clear();
  state.updates.clear();
  state.children.clear();
  for (auto& [path, lease] : state.leases) lease.returning = true;  // until the pool says that they are gone
}

void apply(State& state, const RunStarted& event, const core::TurnInfo& info) {
  state.status = RunStatus::running;
  state.workflow = event.workflow;
  state.version = event.version;
  state.tenant = event.tenant;
  state.user = event.user;
  state.session = event.session;
  state.history_root = event.history_root;
  state.effect_root = event.effect_root;
  state.input = event.input;
  state.started_ms = info.time_ms;
}
void apply(State& state, const RunCompleted& event, const core::TurnInfo& info) {
  close_state(state, RunStatus::completed, info);
  state.result = event.result;
}
void apply(State& state, const RunFailed& event, const core::TurnInfo& info) {
  close_state(state, RunStatus::failed, info);
  state.end_code = event.code;
  state.end_side = event.side;
  state.result = event.details;
}
void apply(State& state, const RunCancelled& event, const core::TurnInfo& info) {
  close_state(state, RunStatus::cancelled, info);
  state.end_code = base::Code::cancelled;
  state.result = event.details;
}
void apply(State& state, const RunTerminated& event, const core::TurnInfo& info) {
  close_state(state, RunStatus::terminated, info);
  state.end_code = base::Code::cancelled;
  state.result = event.reason;
}
void apply(State& state, const RunStuck& event, const core::TurnInfo& info) {
  if (!state.open()) return;
  state.status = RunStatus::stuck;
  state.stuck = event.report;
  state.stuck_since_ms = info.time_ms;
}
void apply(State& state, const RunResumed& event, const core::TurnInfo&) {
  if (state.status != RunStatus::stuck) return;
  state.status = RunStatus::running;
  if (!event.version.empty()) state.version = event.version;
  state.stuck = {};
  state.stuck_since_ms = 0;
  state.owes_activation = true;
}

}  // namespace sandglass::engine::run
