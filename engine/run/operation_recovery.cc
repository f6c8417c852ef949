// Operations of unknown outcome (O2, J16): probe, resend or ask.
//
// "Not done" is believed only of a question that was sent when no attempt under the key could have been at
// work for settle_ms. Whoever asks knows that and says it: such an answer is retryable, any other "not done"
// is not and is asked about again. It is counted on the monotonic clock, from the end of the attempt or of
// every executor that may have had it (decision 6), not on the records' time, which may step.
#include "engine/run/operation_recovery.h"

namespace sandglass::engine::run {
namespace {

/// Between probes that settle nothing: quick at first, since an answer is usually near.
std::int64_t probe_delay_ms(const Operation& operation, const std::string& path) {
  const core::RetryPolicy pace{.initial_interval_ms = 250, .max_interval_ms = 30'000};
  return core::retry_delay_ms(pace, operation.probes_failed + 1, seed_of(path));
}

/// Asks a person, in the inbox of approvals. `operation` is as it was before this turn.
void ask(Decision& d, const std::string& path, const Operation& operation, base::Code code) {
  d.out().send(inbox(), question_path(path, operation.attempt),
               core::OutcomeAsked{
                   .tenant = d.state().tenant,
                   .user = d.state().user,
                   .tool = operation.tool,
                   .level = operation.options.level,
                   .path = path,
                   .target = operation.options.target,
                   .key = operation_key(d.state().effect_root, path, operation.incarnation),
                   .attempt = operation.attempt,
                   .code = code,
                   .sent_ms = operation.intended_ms,
                   .unknown_ms = operation.unknown_since_ms != 0 ? operation.unknown_since_ms : d.now_ms(),
                   .input = operation.input});
}

}  // namespace

core::StreamId inbox() {
  return core::StreamId::named(core::StreamKind::approvals, "");
}

void withdraw_question(Decision& d, const std::string& path, const Operation& operation) {
  d.out().send(inbox(), question_path(path, operation.attempt), core::ApprovalWithdrawn{});
}

core::Action probe_action(const Operation& operation, const std::string& path, const std::string& key,
                          const core::DecideInput& input) {
  return {.kind = core::ActionKind::start,
          .name = operation.options.probe,
          .path = probe_path(path),
          .token = token_of(input, operation.attempt, operation.counter),
          .key = key,
          .input = operation.input,
          .start_to_close_ms = operation.options.attempt_timeout_ms};
}

void on_unknown(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  Operation operation = d.state().operations.find(path)->second;
  const OperationOptions& options = operation.options;
  OperationUnknown event{
      .path = path, .attempt = operation.attempt, .code = finished.code, .then = options.recovery};
  event.message = d.store_text(finished.message);
  if (options.recovery == Recovery::resend) {
    const auto& retry = options.retry;
    if (retry.max_attempts != 0 && operation.attempt >= retry.max_attempts) {
      event.then = Recovery::ask;
    } else {
      event.next_ms = d.now_ms() + core::retry_delay_ms(retry, operation.attempt, seed_of(path));
      d.out().start_timer(operation_timer(path), event.next_ms);
    }
  } else if (options.recovery == Recovery::probe) {
    operation.counter = d.input().seq;
    d.out().act(probe_action(operation, path,
                             operation_key(d.state().effect_root, path, operation.incarnation), d.input()));
  }
  if (event.then == Recovery::ask) ask(d, path, operation, finished.code);
  d.emit(std::move(event));
}

Status on_owner_lost(Decision& d, const std::string& path) {
  const Operation& operation = d.state().operations.find(path)->second;
  d.out().act(
      cancel_action(path, token_of(d.input(), operation.attempt, operation.counter)));  // frees the place
  on_unknown(d, path,
             {.code = base::Code::executor_lost, .message = "the engine ended between intent and outcome"});
  return {};
}

Status on_probed(Decision& d, const std::string& path, const core::ActionFinished& finished) {
  const Operation& operation = d.state().operations.find(path)->second;
  if (operation.status != OperationStatus::probing) return stale(path);
  if (finished.outcome == core::Outcome::done) {  // counts at once
    settle(d, path, core::Outcome::done, finished);
    return {};
  }
  OperationProbed event{.path = path, .code = finished.code};
  if (finished.outcome == core::Outcome::not_done && finished.code == base::Code::effect_not_done) {
    if (finished.retryable) {
      on_not_done(d, path, finished);
      return {};
    }
    event.next_ms = d.now_ms() + probe_delay_ms(operation, path);
  } else {
    event.failed = true;
    const bool again = operation.probes_failed + 1 < kMaxProbeFailures;
    event.next_ms = again ? d.now_ms() + probe_delay_ms(operation, path) : 0;
  }
  if (event.next_ms != 0) {
    d.out().start_timer(operation_timer(path), event.next_ms);
  } else {
    ask(d, path, operation, finished.code);
  }
  d.emit(std::move(event));
  return {};
}

Status decide_outcome(Decision& d, const core::Message& message, const core::OutcomeDecided& decided) {
  const auto at = message.correlation.rfind("?ask#");
  const std::string path = message.correlation.substr(0, at);
  const auto found = d.state().operations.find(path);
  if (!d.state().open() || at == std::string::npos || found == d.state().operations.end() ||
      found->second.status != OperationStatus::asking || message.source != inbox() ||
      message.correlation != question_path(path, found->second.attempt) ||
      decided.arguments != found->second.input.digest) {
    return stale(message.correlation);
  }
  Operation operation = found->second;
  d.emit(OperationDecided{path, decided.verdict, decided.by});
  switch (decided.verdict) {
    case core::OutcomeVerdict::done:
      settle(d, path, core::Outcome::done, {.result = message.payload});
      break;
    case core::OutcomeVerdict::not_done:
      settle(d, path, core::Outcome::not_done,
             {.code = base::Code::effect_not_done, .message = "decided by " + decided.by});
      break;
    case core::OutcomeVerdict::again:
      ++operation.incarnation;
      d.out().act({.kind = core::ActionKind::reserve,
                   .name = operation.tool,
                   .path = path,
                   .token = token_of(d.input(), operation.attempt + 1, d.input().seq),
                   .key = operation_key(d.state().effect_root, path, operation.incarnation),
                   .input = operation.input});
      break;
  }
  return {};
}

void apply(State& state, const OperationUnknown& event, const core::TurnInfo& info) {
  Operation& operation = state.operations[event.path];
  if (operation.unknown_since_ms == 0) operation.unknown_since_ms = info.time_ms;
  switch (event.then) {
    case Recovery::ask:
      operation.status = OperationStatus::asking;
      break;
    case Recovery::probe:
      operation.status = OperationStatus::probing;
      operation.counter = info.seq;
      break;
    case Recovery::resend:
      operation.status = OperationStatus::backoff;
      operation.timer_due_ms = event.next_ms;
      break;
  }
}
void apply(State& state, const OperationProbed& event, const core::TurnInfo&) {
  Operation& operation = state.operations[event.path];
  operation.probes_failed = event.failed ? operation.probes_failed + 1 : 0;
  operation.timer_due_ms = event.next_ms;
  operation.status = event.next_ms == 0 ? OperationStatus::asking : OperationStatus::probe_wait;
}
void apply(State& state, const OperationProbeStarted& event, const core::TurnInfo& info) {
  Operation& operation = state.operations[event.path];
  operation.status = OperationStatus::probing;
  operation.timer_due_ms = 0;
  operation.counter = info.seq;
}
/// `again` is a new operation as far as the outside is concerned: another key, and nothing in doubt about it.
void apply(State& state, const OperationDecided& event, const core::TurnInfo& info) {
  if (event.verdict != core::OutcomeVerdict::again) return;
  Operation& operation = state.operations[event.path];
  ++operation.incarnation;
  ++operation.attempt;
  operation.status = OperationStatus::waiting;
  operation.counter = info.seq;
  operation.unknown_since_ms = 0;
  operation.probes_failed = 0;
}

}  // namespace sandglass::engine::run
