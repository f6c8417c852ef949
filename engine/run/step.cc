// Steps: results are recorded afterwards. A completion and the next schedule are one record (J9); a failed
// attempt is one record and a durable timer.
#include <algorithm>

#include "engine/run/decision.h"

namespace sandglass::engine::run {
namespace {

/// What an attempt may take: its own limit, cut to what is left of the step's.
std::int64_t attempt_limit_ms(const Step& step, std::int64_t now_ms) {
  const std::int64_t own = step.options.start_to_close_ms;
  if (step.options.schedule_to_close_ms == 0) return own;
  const std::int64_t left =
      std::max<std::int64_t>(1, step.scheduled_ms + step.options.schedule_to_close_ms - now_ms);
  return own == 0 ? left : std::min(own, left);
}

/// The policy calls it final.
bool is_final(const Step& step, const core::ActionFinished& finished) {
  const auto& types = step.options.non_retryable;
  return std::ranges::find(types, base::name_of(finished.code)) != types.end() ||
         (!finished.type.empty() && std::ranges::find(types, finished.type) != types.end());
}

/// When the next attempt starts; 0: there is none.
std::int64_t next_attempt_ms(const Decision& d, const Step& step, const std::string& path,
                             const core::ActionFinished& finished) {
  const auto& retry = step.options.retry;
  if (!finished.retryable || finished.code == base::Code::sandbox_lost)
    return 0;  // J16: the workflow decides
  if (is_final(step, finished)) return 0;
  if (retry.max_attempts != 0 && step.attempt >= retry.max_attempts) return 0;
  const std::int64_t next = d.now_ms() + core::retry_delay_ms(retry, step.attempt, seed_of(path));
  const std::int64_t limit = step.options.schedule_to_close_ms;
  return limit != 0 && next >= step.scheduled_ms + limit ? 0 : next;
}

}  // namespace

core::Action step_action(const Step& step, const std::string& path, const State& state,
                         const core::DecideInput& input) {
  const StepOptions& options = step.options;
  return {
      .kind = core::ActionKind::start,
      .name = step.activity,
      .path = path,
      .token = token_of(input, step.attempt, step.counter),
      .key = step_key(input.stream, path),
      .input = step.input,
      .start_to_close_ms = attempt_limit_ms(step, input.now_ms),
      .queue = options.queue,
      .tenant = state.tenant,
      .priority = options.priority,
      .scheduled_ms = step.attempt_ms,
      .schedule_to_start_ms = options.schedule_to_start_ms,
      .heartbeat_ms = options.heartbeat_ms,
      .close_by_ms = options.schedule_to_close_ms == 0 ? 0 : step.scheduled_ms + options.schedule_to_close_ms,
      .progress = step.progress};
}

Status apply_command(Decision& d, const ScheduleStep& command) {
  if (d.state().steps.contains(command.path)) {
    return base::fail(base::Code::non_determinism, "a step is open under path " + command.path);
  }
  Step step{.activity = command.activity,
            .input = d.store(command.input),
            .options = command.options,
            .counter = d.input().seq,
            .scheduled_ms = d.now_ms(),
            .attempt_ms = d.now_ms()};
  d.emit(StepScheduled{command.path, command.activity, step.input, command.options});
  core::Action action = step_action(step, command.path, d.state(), d.input());
  action.input_slot = command.input.slot;
  d.out().act(std::move(action));
  return {};
}

/// One that has ended meanwhile is no error: the workflow had not seen it yet.
Status apply_command(Decision& d, const CancelStep& command) {
  const auto found = d.state().steps.find(command.path);
  if (found != d.state().steps.end()) {
    const Step& step = found->second;
    if (step.retry_due_ms != 0) {
      d.out().end_timer(step_timer(command.path), step.retry_due_ms);
    } else {
      d.out().act(cancel_action(command.path, token_of(d.input(), step.attempt, step.counter)));
    }
  }
  d.emit(StepCancelled{command.path});
  return {};
}

Status decide_step_finished(Decision& d, const core::ActionFinished& finished) {
  const std::string path = finished.path;
  const Step& step = d.state().steps.find(path)->second;
  if (finished.kind != core::ActionKind::start || step.retry_due_ms != 0 || !d.state().open() ||
      !is_current(finished.token, d.input(), step.attempt, step.counter)) {
    return stale(path);
  }
  // Whoever keeps the answer is told once the record is durable, and not before (J5).
  if (finished.receipt)
    d.out().act({.kind = core::ActionKind::settled, .path = path, .token = finished.token});
  if (finished.outcome == core::Outcome::done) {
    if (finished.result && finished.result.slot->bytes.size() > kMaxPayloadBytes) {  // FR-80
      const auto message = "the result has " + std::to_string(finished.result.slot->bytes.size()) +
                           " bytes; at most " + std::to_string(kMaxPayloadBytes) +
                           " may be recorded, larger content is kept as artifact";
      d.emit(StepFailed{path,
                        step.attempt,
                        base::Code::record_too_large,
                        core::FailureSide::user,
                        d.store_text(message),
                        {}});
    } else {
      d.emit(StepCompleted{path, step.attempt, d.store(finished.result)});
    }
    d.activate();
    return {};
  }
  if (finished.code == core::kCrashesCode) {  // J13: it is no failure of the step, and nothing is tried
    if (d.state().status != RunStatus::stuck) {
      d.emit(RunStuck{{.code = finished.code, .path = path, .message = finished.message}});
    }
    return {};
  }
  const std::int64_t next = next_attempt_ms(d, step, path, finished);
  if (next != 0) {
    d.out().start_timer(step_timer(path), next);
    d.emit(StepAttemptFailed{path, step.attempt, finished.code, finished.side, next,
                             d.store_text(finished.message), d.store(finished.progress)});
    return {};
  }
  d.emit(StepFailed{path, step.attempt, finished.code, finished.side, d.store_text(finished.message),
                    d.store(finished.result)});
  d.activate();
  return {};
}

Status decide_step_timer(Decision& d, const std::string& path) {
  const auto found = d.state().steps.find(path);
  if (!d.state().open() || found == d.state().steps.end() || found->second.retry_due_ms == 0)
    return stale(path);
  Step step = found->second;
  d.emit(StepRetried{path});
  ++step.attempt;
  step.counter = d.input().seq;
  step.attempt_ms = d.now_ms();
  d.out().act(step_action(step, path, d.state(), d.input()));
  return {};
}

void apply(State& state, const StepScheduled& event, const core::TurnInfo& info) {
  state.steps[event.path] = {.activity = event.activity,
                             .input = event.input,
                             .options = event.options,
                             .counter = info.seq,
                             .scheduled_ms = info.time_ms,
                             .attempt_ms = info.time_ms};
}
void apply(State& state, const StepCompleted& event, const core::TurnInfo&) {
  state.steps.erase(event.path);
}
void apply(State& state, const StepFailed& event, const core::TurnInfo&) {
  state.steps.erase(event.path);
}
void apply(State& state, const StepCancelled& event, const core::TurnInfo&) {
  state.steps.erase(event.path);
}
void apply(State& state, const StepAttemptFailed& event, const core::TurnInfo&) {
  const auto found = state.steps.find(event.path);
  if (found == state.steps.end()) return;
  found->second.retry_due_ms = event.next_ms;
  if (!event.progress.empty()) found->second.progress = event.progress;
}
void apply(State& state, const StepRetried& event, const core::TurnInfo& info) {
  const auto found = state.steps.find(event.path);
  if (found == state.steps.end()) return;
  found->second.retry_due_ms = 0;
  ++found->second.attempt;
  found->second.counter = info.seq;
  found->second.attempt_ms = info.time_ms;
}

}  // namespace sandglass::engine::run
