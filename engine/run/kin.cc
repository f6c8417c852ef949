// What a run is to others: started by a message, stopped by its parent, continued by a successor, and heard
// of when it ends.
#include <algorithm>

#include "engine/run/decision.h"

namespace sandglass::engine::run {
namespace {

/// Only who asked for the run, or the run that went on as this one, has a say in it.
bool is_kin(const State& state, const core::StreamId& stream) {
  return stream == state.continues || std::ranges::any_of(state.askers, [&](const core::RunAsker& asker) {
           return asker.stream == stream;
         });
}

core::RunEnd end_of(RunStatus status) {
  switch (status) {
    case RunStatus::failed:
      return core::RunEnd::failed;
    case RunStatus::cancelled:
      return core::RunEnd::cancelled;
    case RunStatus::terminated:
      return core::RunEnd::terminated;
    default:
      return core::RunEnd::completed;
  }
}

void tell(Decision& d, const std::vector<core::RunAsker>& askers, const core::RunEnded& ended) {
  for (const core::RunAsker& asker : askers) d.out().send(asker.stream, asker.correlation, ended);
}

/// Whoever asks twice is told once.
void add_askers(Decision& d, const std::vector<core::RunAsker>& askers) {
  for (const core::RunAsker& asker : askers) {
    const auto& known = d.state().askers;
    if (std::ranges::find(known, asker) == known.end()) d.emit(RunAsked{asker.stream, asker.correlation});
  }
}

/// The run exists: they hear of its end, which may have been long ago.
Status attach(Decision& d, const std::vector<core::RunAsker>& askers) {
  const State& state = d.state();
  if (state.status == RunStatus::continued) return pass_on(d, "asker", core::RunAwaited{askers}, {});
  if (state.open()) {
    add_askers(d, askers);
    return {};
  }
  const bool terminated = state.status == RunStatus::terminated;
  tell(d, askers,
       {.how = end_of(state.status),
        .code = terminated ? base::Code::run_closed : state.end_code,
        .side = state.end_side,
        .run = d.input().stream,
        .result = state.result,
        .message = {}});
  add_askers(d, askers);
  return {};
}

}  // namespace

Status decide_start_requested(Decision& d, const core::Message& message,
                              const core::RunStartRequested& request) {
  const std::vector<core::RunAsker> askers =
      request.askers.empty() && request.continues == core::StreamId{}
          ? std::vector<core::RunAsker>{{message.source, message.correlation}}
          : request.askers;
  const StartRun start{.workflow = request.workflow,
                       .version = request.version,
                       .tenant = request.tenant,
                       .user = request.user,
                       .session = request.session,
                       .input = message.payload,
                       .history_root = request.history_root,
                       .effect_root = request.effect_root};
  Status status = check_start(d, start);
  if (status && d.state().status != RunStatus::none && d.state().continues != request.continues) {
    status = base::fail(base::Code::run_exists,
                        "run " + d.input().stream.text() + " exists and goes on from another run");
  }
  if (!status) {
    tell(d, askers,
         {.how = core::RunEnd::refused,
          .code = status.error().code,
          .side = core::FailureSide::user,
          .run = d.input().stream,
          .result = {},
          .message = status.error().message});
    d.emit(MessageIgnored{message.correlation, message.source});
    return {};
  }
  if (d.state().status != RunStatus::none) return attach(d, askers);
  d.follow();
  begin(d, start);
  if (request.continues != core::StreamId{}) d.emit(RunContinues{request.continues});
  add_askers(d, askers);
  return {};
}

Status decide_stop_requested(Decision& d, const core::Message& message, const core::RunStopRequested& stop) {
  if (!is_kin(d.state(), message.source)) return stale(message.correlation);
  if (d.state().status == RunStatus::continued) {
    return pass_on(d, stop.terminate ? "terminate" : "cancel", stop, message.payload);
  }
  if (!d.state().open()) return {};
  if (stop.terminate) {
    terminate(d, message.payload);
  } else {
    request_cancel(d, message.payload);
  }
  return {};
}

Status decide_signalled(Decision& d, const core::Message& message, const core::RunSignalled& signalled) {
  if (message.source != d.state().continues) return stale(message.correlation);
  if (d.state().status == RunStatus::continued) {
    return pass_on(d, "signal " + signalled.name, signalled, message.payload);
  }
  if (!d.state().open()) return stale(message.correlation);
  receive_signal(d, signalled.name, message.payload);
  return {};
}

Status decide_awaited(Decision& d, const core::Message& message, const core::RunAwaited& awaited) {
  if (message.source != d.state().continues) return stale(message.correlation);
  return attach(d, awaited.askers);
}

Status pass_on(Decision& d, std::string what, core::MessageBody body, core::Payload payload) {
  d.out().send(d.state().successor, {}, std::move(body), std::move(payload));
  d.emit(RunPassedOn{std::move(what), d.state().successor});
  return {};
}

/// One record ends this run and has the successor's start and all its signals, in order: nothing comes
/// between (J1, J18).
Status apply_command(Decision& d, const ContinueAsNew& command) {
  const State& state = d.state();
  if (!state.operations.empty()) {
    return base::fail(
        base::Code::non_determinism,
        "the workflow goes on as new while an operation is open: " + state.operations.begin()->first);
  }
  if (!std::ranges::equal(command.signals, state.signals, [](const auto& carried, const auto& unread) {
        return carried.number == unread.first;
      })) {
    return base::fail(base::Code::internal,
                      "the live workflow and its unread signals are out of step; resume the run");
  }
  const core::StreamId successor = successor_id(d.input().stream);
  const core::PayloadRef input = d.store(command.input);
  release_all(d, nullptr);
  d.out().send(successor, {},
               core::RunStartRequested{.workflow = state.workflow,
                                       .version = command.version,
                                       .tenant = state.tenant,
                                       .user = state.user,
                                       .session = state.session,
                                       .history_root = {},
                                       .effect_root = {},
                                       .askers = state.askers,
                                       .continues = d.input().stream},
               command.input);
  for (const CarriedSignal& signal : command.signals) {
    d.out().send(successor, {}, core::RunSignalled{signal.name}, signal.payload);
  }
  if (state.cancel_requested) {  // what was asked of this run is asked of that one
    d.out().send(successor, {}, core::RunStopRequested{},
                 text_payload("the run that it continues was to be cancelled"));
  }
  d.emit(RunContinued{successor, input});
  return {};
}

void apply(State& state, const RunContinued& event, const core::TurnInfo& info) {
  close_state(state, RunStatus::continued, info);
  state.successor = event.run;
}
void apply(State& state, const RunAsked& event, const core::TurnInfo&) {
  state.askers.push_back({event.by, event.correlation});
}
void apply(State& state, const RunContinues& event, const core::TurnInfo&) {
  state.continues = event.run;
}
void apply(State&, const RunPassedOn&, const core::TurnInfo&) {}

}  // namespace sandglass::engine::run
