#include "engine/schedule/decider.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <utility>

namespace sandglass::engine::schedule {
namespace {

using Writer = core::TurnWriter<Event>;

constexpr const char* kPlan = "plan";
const std::string kWake = std::string(1, core::kCalendarTimer) + "wake";

/// The schedule's own moments are skipped as paused.
bool passes_over(const State& state) {
  return state.pause_until_ms != 0 || state.stage == Stage::paused;
}

/// What the outstanding PlanAsked asks.
Question question_of(const State& state, const core::StreamId& stream) {
  const PlanAsked& asked = *state.asked;
  Question question{.schedule = stream.text(), .timing = state.definition.timing, .until_ms = asked.until_ms};
  if (asked.backfill) {
    question.timing.jitter_ms = 0;
    question.after_ms = state.backfills.front().after_ms;
    question.not_late_ms = std::numeric_limits<std::int64_t>::min();
    question.at_most = kBackfilledAtOnce;
    question.oldest_first = true;
    return question;
  }
  question.after_ms = state.covered_ms;
  if (passes_over(state)) return question;  // none of them runs
  question.not_late_ms = asked.until_ms - std::max(state.definition.catch_up_ms, kNowMs) + 1;
  question.at_most = state.definition.catch_up_most;
  return question;
}

core::Action plan_action(const State& state, const core::StreamId& stream) {
  std::string text = "workflow " + state.definition.workflow + "\n" + encode(question_of(state, stream));
  return {
      .kind = core::ActionKind::start,
      .name = "schedule.plan",
      .path = kPlan,
      .token = state.asked->token,
      .key = stream.text() + "/" + kPlan + "/" + std::to_string(state.asked->token.counter),
      .input_slot = std::make_shared<const core::Slot>(core::Slot{core::Encoding::bytes, std::move(text)})};
}

core::Action run_action(const State& state, const OpenRun& open) {
  return {.kind = core::ActionKind::start,
          .name = "schedule.run",
          .path = kRunPath + open.fire.id,
          .token = open.token,
          .key = open.run.text(),
          .input = state.definition.input};
}

class Turn {
 public:
  Turn(const State& state, const core::DecideInput& input, Writer& writer)
      : state_(state), input_(input), writer_(writer) {}

  base::Status operator()(const CreateSchedule& command) {
    if (exists())
      return base::fail(base::Code::already_exists, "there is a schedule " + state_.definition.name +
                                                        "; change it with an update, or delete it first");
    if (auto checked = check(command.definition, command.input); !checked) return checked;
    Definition definition = command.definition;
    definition.input = writer_.store(command.input);
    emit(ScheduleCreated{std::move(definition), command.by, input_.calendar()});
    return {};
  }
  base::Status operator()(const UpdateSchedule& command) {
    if (!exists()) return missing();
    if (auto checked = check(command.definition, command.input); !checked) return checked;
    Definition definition = command.definition;
    definition.input = command.keep_input ? state_.definition.input : writer_.store(command.input);
    emit(ScheduleUpdated{std::move(definition), command.by, input_.calendar()});
    return {};
  }
  base::Status operator()(const PauseSchedule& command) {
    if (!exists()) return missing();
    if (state_.stage == Stage::paused) return {};
    const auto waiting = state_.waiting;
    for (const Fire& fire : waiting) {
      if (fire.cause == Cause::schedule) drop(fire, SkipReason::paused);
    }
    emit(SchedulePaused{command.by});
    return {};
  }
  base::Status operator()(const ResumeSchedule& command) {
    if (!exists()) return missing();
    if (state_.stage == Stage::active) return {};
    emit(ScheduleResumed{command.by, input_.calendar()});
    return {};
  }
  base::Status operator()(const DeleteSchedule& command) {
    if (!exists()) return missing();
    const auto waiting = state_.waiting;
    for (const Fire& fire : waiting) drop(fire, SkipReason::deleted);
    emit(ScheduleDeleted{command.by});
    return {};
  }
  base::Status operator()(const TriggerSchedule& command) {
    if (!exists()) return missing();
    if (busy() && state_.definition.overlap == Overlap::skip)
      return base::fail(base::Code::already_exists,
                        "schedule " + state_.definition.name +
                            ": a run of it is still open, and its overlap policy is "
                            "skip; try again when it has ended");
    const std::int64_t now = input_.calendar();
    const Fire fire{moment_text(now) + "/trigger-" + std::to_string(state_.last_number + 1), now,
                    Cause::trigger};
    if (!take(fire, command.by))
      return base::fail(base::Code::quota_exceeded,
                        "schedule " + state_.definition.name + " has as many runs waiting as it may have");
    return {};
  }
  base::Status operator()(const BackfillSchedule& command) {
    if (!exists()) return missing();
    if (command.to_ms < command.from_ms)
      return base::fail(base::Code::invalid_argument, "the backfill's end is before its beginning");
    if (command.to_ms > input_.calendar())
      return base::fail(base::Code::invalid_argument,
                        "a backfill is of moments that have been; its end lies in the future");
    if (state_.backfills.size() == kMostBackfills)
      return base::fail(base::Code::quota_exceeded, "schedule " + state_.definition.name + " has " +
                                                        std::to_string(kMostBackfills) +
                                                        " backfills under way");
    if (is_too_much(command)) {
      return base::fail(base::Code::invalid_argument,
                        "the schedule has more than " + std::to_string(kMostBackfilled) +
                            " moments in that time, and as many runs would begin; name a shorter time, or "
                            "several one after the other");
    }
    emit(BackfillAsked{state_.last_number + 1, command.from_ms, command.to_ms, command.by});
    return {};
  }

  base::Status operator()(const core::TimerFired& timer) {
    writer_.end_timer(timer.key, timer.due_ms);
    if (timer.key != kWake || timer.due_ms != state_.wake_ms) return {};
    emit(WakeSet{0});
    wakes_ = true;
    return {};
  }
  base::Status operator()(const core::ActionFinished& finished) {
    if (finished.path == kPlan && state_.asked && state_.asked->token == finished.token) planned(finished);
    if (finished.path.starts_with(kRunPath)) run_finished(finished);
    return {};
  }
  /// What follows from the state as it is now, whatever led to it.
  void settle() {
    start_waiting();
    ask();
    set_wake();
  }

 private:
  /// Counted by the hours of UTC: how many there are in all is the same.
  bool is_too_much(const BackfillSchedule& command) const {
    const auto calendar = Calendar::make(state_.definition.timing);
    if (!calendar) return false;  // it was checked when it came
    std::size_t moments = 0;
    for (auto at = calendar->next(UtcZone(), command.from_ms - 1); at && *at <= command.to_ms;
         at = calendar->next(UtcZone(), *at)) {
      if (++moments > kMostBackfilled) return true;
    }
    return false;
  }
  bool exists() const { return state_.stage == Stage::active || state_.stage == Stage::paused; }
  static std::unexpected<base::Error> missing() {
    return base::fail(base::Code::not_found, "there is no such schedule; `sandglass schedule list` has them");
  }
  static base::Status check(const Definition& definition, const core::Payload& input) {
    if (input && input.slot->bytes.size() > kMostInputBytes)
      return base::fail(base::Code::record_too_large, "the input of a schedule's runs has at most " +
                                                          std::to_string(kMostInputBytes) + " bytes");
    return check_definition(definition);
  }
  bool busy() const { return !state_.open.empty() || !state_.waiting.empty(); }
  core::Token new_token() const { return {.epoch = input_.epoch, .attempt = 1, .counter = input_.seq}; }

  void emit(Event event) {
    ScheduleDecider::evolve(state_, event,
                            {.seq = input_.seq, .time_ms = input_.now_ms, .epoch = input_.epoch});
    writer_.emit(std::move(event));
  }

  void skip(SkipReason reason, const Passed& moments) {
    if (moments.count != 0) emit(MomentsSkipped{reason, moments, {}});
  }
  void drop(const Fire& fire, SkipReason reason) {
    emit(MomentsSkipped{reason, {1, fire.moment_ms, fire.moment_ms}, fire.id});
  }

  /// Lets a fire wait for its turn, as the overlap policy has it; false: it may not.
  bool take(const Fire& fire, const std::string& by = {}) {
    const Overlap overlap = state_.definition.overlap;
    const bool replaces = overlap == Overlap::cancel_other || overlap == Overlap::terminate_other;
    if (replaces && fire.cause != Cause::backfill) {
      const auto waiting = state_.waiting;
      for (const Fire& earlier : waiting) {
        if (earlier.cause != Cause::backfill) drop(earlier, SkipReason::overlap);
      }
      stop_open(overlap == Overlap::terminate_other);
    } else if (state_.waiting.size() >= room(fire.cause)) {
      return false;
    }
    emit(Fired{fire, by});
    return true;
  }

  /// How many may wait before one of this cause is taken.
  std::size_t room(Cause cause) const {
    if (cause == Cause::backfill) return kMostBuffered + kBackfilledAtOnce;
    const std::size_t starting = state_.open.empty() ? 1 : 0;
    switch (state_.definition.overlap) {
      case Overlap::buffer_one:
        return 1 + starting;
      case Overlap::buffer_all:
        return state_.definition.buffer + starting;
      case Overlap::allow_all:
        return kMostBuffered;
      case Overlap::skip:
      case Overlap::cancel_other:
      case Overlap::terminate_other:
        break;
    }
    return 1;
  }

  void stop_open(bool terminate) {
    std::vector<OpenRun> stopping;
    for (const auto& [id, open] : state_.open) {
      if (!open.stopped) stopping.push_back(open);
    }
    for (const OpenRun& open : stopping) {
      core::Action stop = run_action(state_, open);
      stop.kind = core::ActionKind::cancel;
      writer_.act(std::move(stop));
      emit(ScheduledRunStopped{open.fire.id, terminate});
    }
  }

  /// How the run of the action ended; a run is never given up because nobody knows.
  void run_finished(const core::ActionFinished& finished) {
    const std::string fire = finished.path.substr(std::string_view(kRunPath).size());
    const auto found = state_.open.find(fire);
    if (found == state_.open.end() || found->second.token != finished.token) return;
    const std::string text = finished.result ? finished.result.slot->bytes : std::string();
    const std::size_t blank = text.find(' ');
    const auto how = parse_run_end(std::string_view(text).substr(0, blank));
    if (finished.outcome == core::Outcome::done && how && blank != std::string::npos) {
      unsigned code = 0;
      std::from_chars(text.data() + blank + 1, text.data() + text.size(), code);
      emit(ScheduledRunEnded{fire, found->second.run, *how, static_cast<base::Code>(code)});
    } else if (finished.outcome == core::Outcome::not_done && !finished.retryable &&
               finished.code != base::Code::cancelled) {
      emit(ScheduledRunEnded{fire, found->second.run, RunEnd::refused, finished.code});
    } else {
      emit(ScheduledRunLost{fire, new_token()});
      core::Action again = run_action(state_, state_.open.at(fire));
      again.not_before_ms = input_.now_ms + kAttachAgainMs;
      writer_.act(std::move(again));
    }
  }

  void planned(const core::ActionFinished& finished) {
    const PlanAsked asked = *state_.asked;
    const std::string text = finished.result ? finished.result.slot->bytes : std::string();
    const std::size_t line = text.find('\n');
    auto plan = finished.outcome == core::Outcome::done && line != std::string::npos
                    ? decode_plan(std::string_view(text).substr(line + 1))
                    : base::Result<Plan>(base::fail(finished.code, finished.message));
    if (!plan) {
      emit(PlanFailed{plan.error().code, plan.error().message});
      failed_ = true;
      return;
    }
    const bool of_pause = !asked.backfill && passes_over(state_);
    const std::uint64_t backfill = asked.backfill ? state_.backfills.front().number : 0;
    emit(PlanTaken{plan->zone_data, text.substr(0, line), plan->covered_ms, plan->more, plan->next});
    skip(of_pause ? SkipReason::paused : SkipReason::late, plan->late);
    for (const Occurrence& one : plan->due) {
      if (asked.backfill) {
        take({moment_text(one.moment_ms) + "/backfill-" + std::to_string(backfill), one.moment_ms,
              Cause::backfill});
      } else {
        come(one);
      }
    }
  }

  /// A moment has come.
  void come(const Occurrence& one) {
    if (state_.used_up()) return;
    const Passed moment{1, one.moment_ms, one.moment_ms};
    if (state_.definition.overlap == Overlap::skip && busy()) return skip(SkipReason::overlap, moment);
    if (!take({moment_text(one.moment_ms), one.moment_ms, Cause::schedule})) {
      return skip(SkipReason::buffer_full, moment);
    }
    start_waiting();
  }

  bool may_start() const {
    if (state_.version.empty() || state_.open.size() >= kMostRunning) return false;
    return state_.open.empty() || state_.definition.overlap == Overlap::allow_all;
  }

  void start_waiting() {
    while (!state_.waiting.empty() && may_start()) start(state_.waiting.front().id);
  }

  void start(const std::string& waiting) {
    const std::string fire = waiting;
    const core::StreamId run = core::StreamId::for_request(
        core::StreamKind::run, state_.definition.tenant,
        "cron:" + input_.stream.text() + ":" + std::to_string(state_.incarnation) + ":" + fire);
    emit(ScheduledRunStarted{fire, run, state_.version, new_token()});
    writer_.act(run_action(state_, state_.open.at(fire)));
  }

  void ask() {
    if (state_.asked || failed_ || !exists()) return;
    const std::size_t open = state_.waiting.size() + state_.open.size();
    if (!state_.backfills.empty() && open < kBackfilledAtOnce) {
      return ask(true, state_.backfills.front().to_ms);
    }
    if (state_.stage != Stage::active || state_.used_up()) {
      // A trigger needs to know the workflow's version too.
      if (state_.waiting.empty() || !state_.version.empty()) return;
    }
    if (!state_.wants_plan && !wakes_) return;
    ask(false, state_.pause_until_ms != 0 ? state_.pause_until_ms : input_.calendar());
  }
  void ask(bool backfill, std::int64_t until_ms) {
    emit(PlanAsked{new_token(), backfill, until_ms});
    writer_.act(plan_action(state_, input_.stream));
  }

  /// One timer: for the next moment, or to try again what failed.
  void set_wake() {
    std::int64_t due = 0;
    const bool may_fire = state_.stage == Stage::active && !state_.used_up();
    if (failed_) {
      due = input_.calendar() + kRetryMs;
    } else if (state_.problem != base::Code::ok && exists()) {
      due = state_.wake_ms;
    } else if (may_fire && !state_.asked && state_.next) {
      due = state_.next->due_ms;
    }
    if (due == state_.wake_ms) return;
    if (state_.wake_ms != 0) writer_.end_timer(kWake, state_.wake_ms);
    if (due != 0) writer_.start_timer(kWake, due);
    emit(WakeSet{due});
  }

  State state_;  // as this turn's events make it
  const core::DecideInput& input_;
  Writer& writer_;
  bool wakes_ = false;
  bool failed_ = false;
};

}  // namespace

std::string encode_end(RunEnd how, base::Code code) {
  return std::string(name_of(how)) + " " + std::to_string(static_cast<unsigned>(code));
}

base::Status check_definition(const Definition& definition) {
  const auto bad = [](const std::string& why) { return base::fail(base::Code::invalid_argument, why); };
  if (!is_schedule_name(definition.name))
    return bad("a schedule's name has 1 to " + std::to_string(kLongestName) +
               " letters, digits, dots, hyphens and underscores, and begins with none of the first two");
  if (definition.workflow.empty()) return bad("a schedule needs the name of a workflow");
  if (definition.accumulates && definition.overlap == Overlap::allow_all)
    return bad("runs of one session never overlap: choose another overlap policy than allow-all");
  if (definition.buffer == 0 || definition.buffer > kMostBuffered)
    return bad("1 to " + std::to_string(kMostBuffered) + " runs may wait");
  if (definition.catch_up_ms < 0 || definition.catch_up_most == 0 || definition.catch_up_most > kMostBuffered)
    return bad("the catch-up window is not negative, and lets 1 to " + std::to_string(kMostBuffered) +
               " missed runs be caught up with");
  const auto calendar = Calendar::make(definition.timing);
  return calendar ? base::Status() : std::unexpected(calendar.error());
}

base::Status ScheduleDecider::decide(const State& state, const Command& command,
                                     const core::DecideInput& input, Writer& writer) {
  Turn turn(state, input, writer);
  if (auto decided = std::visit(turn, command); !decided) return decided;
  turn.settle();
  return {};
}

void ScheduleDecider::pending(const State& state, const core::DecideInput& input,
                              std::vector<core::Action>& actions) {
  if (state.asked) actions.push_back(plan_action(state, input.stream));
  for (const auto& [fire, open] : state.open) actions.push_back(run_action(state, open));
}

}  // namespace sandglass::engine::schedule
