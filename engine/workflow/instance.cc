#include "engine/workflow/instance.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

namespace sandglass::engine::workflow {
namespace {

using base::Code;

const std::vector<run::Event>& events_of(const core::TurnView& turn) {
  return static_cast<const core::Events<run::Event>&>(*turn.events).items;
}

/// A payload that stands in the record being read.
core::SlotPtr slot_of(const core::TurnView& turn, const core::PayloadRef& ref) {
  if (ref.empty() || ref.seq != turn.info.seq || ref.slot >= turn.slots.size()) return nullptr;
  return turn.slots[ref.slot];
}
std::string text_of(const core::TurnView& turn, const core::PayloadRef& ref) {
  const core::SlotPtr slot = slot_of(turn, ref);
  return slot ? slot->bytes : std::string();
}

/// Failures that are nobody's task's fault (O7).
core::FailureSide side_of(Code code) {
  const auto number = static_cast<std::uint16_t>(code);
  const bool platform = code == Code::internal || code == Code::io_error || code == Code::disk_full ||
                        code == Code::unavailable || (number >= 1100 && number < 1200) ||
                        code == Code::sandbox_lost || code == Code::provider_failed ||
                        code == Code::host_unreachable || code == Code::executor_lost;
  return platform ? core::FailureSide::platform : core::FailureSide::user;
}

Json parse_or_null(const core::SlotPtr& slot) {
  if (!slot) return nullptr;
  Json value = Json::parse(slot->bytes, nullptr, false);
  return value.is_discarded() ? Json(nullptr) : value;
}

}  // namespace

Instance::Instance(const Registry& registry, const Workflow& workflow, RunInfo info,
                   core::DigestKey digest_key)
    : registry_(registry),
      workflow_(workflow),
      info_(std::move(info)),
      digest_key_(digest_key),
      root_context_(*this, root_scope_, "0") {}

Instance::~Instance() {
  handlers_.forget();
}

run::ApplyActivation Instance::activate(const core::ActivationRequest& request, const run::State& state) {
  Position from;
  if (begun_) {
    settle_taken(request, state);
  } else {
    known_patches_ = state.patched;
    if (state.restart_seq != 0) from = after_checkpoint(request, state);
  }
  for_each_event(request, from, [&](const run::Event& event, const core::TurnView&) {
    const auto expected = claim_of(event);
    outputs_left_ += expected && expected->kind != ClaimKind::patch;
    if (begun_) return;
    if (const auto* mark = std::get_if<run::PatchMarked>(&event)) patches_to_claim_.insert(mark->id);
  });
  if (!begun_ && state.restart_seq != 0) restart(request, from);
  begun_ = true;
  for_each_event(request, from, [&](const run::Event& event, const core::TurnView& turn) {
    if (!report_) handle(event, turn);
  });
  outputs_left_ = 0;
  known_commands_ = state.commands;
  run::ApplyActivation output;
  if (report_) {
    output.stuck = report_;
  } else {
    for (const Issued& issued : outbox_) output.commands.push_back(issued.command);
  }
  return output;
}

Result<std::string> Instance::ask(const core::ActivationRequest& request, const run::State& state) {
  const core::Question& question = *request.question;
  // Code that has returned has no handlers any more: what one says as it goes is the answer.
  if (!state.open()) handlers_.expect(&question);
  const run::ApplyActivation output = activate(request, state);
  handlers_.expect(nullptr);
  if (output.stuck) {
    return base::fail(
        output.stuck->code,
        "this code cannot repeat the run's history, and so knows no state that could be asked: " +
            output.stuck->message);
  }
  return handlers_.answer(question);
}

template <class Visit>
void Instance::for_each_event(const core::ActivationRequest& request, Position from, Visit visit) {
  for (std::size_t t = from.turn; t < request.turns.size(); ++t) {
    const auto& events = events_of(request.turns[t]);
    for (std::size_t e = t == from.turn ? from.event : 0; e < events.size(); ++e)
      visit(events[e], request.turns[t]);
  }
}

/// What stands before the last checkpoint is not looked at. Event 0 of turn 0: it was not given.
Instance::Position Instance::after_checkpoint(const core::ActivationRequest& request,
                                              const run::State& state) {
  Position from;
  for (std::size_t t = 0; t < request.turns.size() && request.turns[t].info.seq <= state.restart_seq; ++t) {
    const auto& events = events_of(request.turns[t]);
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (std::holds_alternative<run::Checkpointed>(events[e])) from = {t, e + 1};
    }
  }
  return from;
}

void Instance::restart(const core::ActivationRequest& request, Position from) {
  if (from.event == 0) {
    stick(
        {.code = Code::checkpoint_undecodable, .message = "the record of the last checkpoint was not given"});
    return;
  }
  const core::TurnView& turn = request.turns[from.turn];
  const auto* found = std::get_if<run::Checkpointed>(&events_of(turn)[from.event - 1]);
  generation_ = found->generation;
  root_context_.prefix_ = std::to_string(generation_);
  now_ms_ = turn.info.time_ms;
  for (const auto& signal : found->signals) {
    unread_.push_back({signal.number, signal.name, slot_of(turn, signal.payload)});
  }
  const core::SlotPtr bytes = slot_of(turn, found->state);
  if (!workflow_.restart || !bytes) {
    stick({.code = Code::checkpoint_undecodable, .message = "this workflow cannot start from a checkpoint"});
    return;
  }
  auto task = workflow_.restart(root_context_, found->schema_version, bytes->bytes);
  if (!task) {
    stick(
        {.code = Code::checkpoint_undecodable, .event_seq = turn.info.seq, .message = task.error().message});
    return;
  }
  root_ = std::move(*task);
  root_.start(queue_);
  resume();
}

void Instance::settle_taken(const core::ActivationRequest& request, const run::State& state) {
  std::uint64_t shown = 0;
  for (const core::TurnView& turn : request.turns) {
    for (const run::Event& event : events_of(turn)) shown += claim_of(event).has_value();
  }
  const std::uint64_t taken = state.commands - known_commands_ - shown;
  if (taken > outbox_.size()) {
    stick({.code = Code::internal,
           .message = "the live workflow and its history are out of step; resume the run"});
    return;
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(taken));
}

void Instance::handle(const run::Event& event, const core::TurnView& turn) {
  now_ms_ = turn.info.time_ms;
  if (const auto expected = claim_of(event)) {
    if (expected->kind != ClaimKind::patch) --outputs_left_;
    claim(*expected, turn.info.seq);
    return;
  }
  if (ended_) return;
  ++round_;
  if (deliver(event, turn)) resume();
}

/// True if workflow code may have become ready.
bool Instance::deliver(const run::Event& event, const core::TurnView& turn) {
  if (const auto* e = std::get_if<run::RunStarted>(&event)) {
    root_ = workflow_.start(root_context_, parse_or_null(slot_of(turn, e->input)));
    root_.start(queue_);
  } else if (std::holds_alternative<run::CancelRequested>(event)) {
    root_scope_.cancel();
  } else if (const auto* done = std::get_if<run::StepCompleted>(&event)) {
    deliver_to(WaitKind::step, done->path, {.payload = slot_of(turn, done->result)});
  } else if (const auto* failed = std::get_if<run::StepFailed>(&event)) {
    deliver_to(WaitKind::step, failed->path,
               {.code = failed->code,
                .outcome = core::Outcome::not_done,
                .side = failed->side,
                .details = slot_of(turn, failed->details),
                .message = text_of(turn, failed->message)});
  } else if (const auto* elapsed = std::get_if<run::TimerElapsed>(&event)) {
    deliver_to(WaitKind::timer, elapsed->path, {});
  } else if (const auto* signal = std::get_if<run::SignalReceived>(&event)) {
    const core::SlotPtr payload = slot_of(turn, signal->payload);
    const auto waiting = waits_.find({WaitKind::signal, signal->name});
    if (waiting == waits_.end()) {
      unread_.push_back({signal->number, signal->name, payload});
    } else {
      waiting->second.front()->deliver(
          {.from = WaitKind::signal, .payload = payload, .number = signal->number});
    }
  } else if (const auto* update = std::get_if<run::UpdateAccepted>(&event)) {
    accept_update(*update, turn);
  } else if (const auto* answered = std::get_if<run::ExchangeAnswered>(&event)) {
    deliver_to(
        WaitKind::exchange, answered->path,
        {.payload = slot_of(turn, answered->payload), .body = answered->body, .source = answered->source});
  } else if (const auto* closed = std::get_if<run::LeaseClosed>(&event)) {
    closed_leases_[closed->lease] = closed->code;
    deliver_to(WaitKind::lease, closed->lease, {.code = closed->code});
  } else if (const auto* settled = std::get_if<run::OperationSettled>(&event)) {
    deliver_to(WaitKind::operation, settled->path,
               {.code = settled->code,
                .outcome = settled->outcome,
                .side = settled->side,
                .payload = slot_of(turn, settled->result),
                .message = text_of(turn, settled->message)});
  } else if (const auto* child = std::get_if<run::ChildEnded>(&event)) {
    child_ended(*child, slot_of(turn, child->result));
  } else {
    return false;
  }
  return true;
}

void Instance::child_ended(const run::ChildEnded& event, core::SlotPtr result) {
  Delivery delivery{.from = WaitKind::child,
                    .code = event.code,
                    .side = event.side,
                    .payload = std::move(result),
                    .message = event.message,
                    .source = event.run,
                    .end = event.how};
  const auto open = children_.find(event.path);
  if (waits_.contains({WaitKind::child, event.path})) {
    if (open != children_.end()) children_.erase(open);
    deliver_to(WaitKind::child, event.path, std::move(delivery));
  } else if (open != children_.end()) {
    open->second.end = std::move(delivery);
  }
}

/// Nobody may wait any more: a cancelled scope has moved on.
void Instance::deliver_to(WaitKind kind, const std::string& path, Delivery delivery) {
  const auto waiting = waits_.find({kind, path});
  if (waiting == waits_.end()) return;
  delivery.from = kind;
  waiting->second.front()->deliver(std::move(delivery));
}

void Instance::accept_update(const run::UpdateAccepted& event, const core::TurnView& turn) {
  if (handlers_.start(event.number, event.name, parse_or_null(slot_of(turn, event.input)))) return;
  stick({.code = Code::non_determinism,
         .expected = "update " + std::to_string(event.number) + " (" + event.name + ")",
         .actual = "no handler: the code takes no update of this name at this point",
         .event_seq = turn.info.seq,
         .message = "history has an update that this code does not take"});
}

void Instance::complete_update(std::uint64_t number, Result<Json> result) {
  run::CompleteUpdate command{.number = number};
  auto payload =
      result ? root_context_.payload_of(*result) : Result<core::Payload>(std::unexpected(result.error()));
  if (!payload) {
    command.code = payload.error().code;
    payload = root_context_.payload_of(
        {{"code", base::name_of(command.code)}, {"message", payload.error().message}});
  }
  if (payload) command.result = std::move(*payload);
  issue(std::move(command));
}

void Instance::claim(const Claim& expected, std::uint64_t seq) {
  const auto found =
      std::ranges::find_if(outbox_, [&](const Issued& issued) { return issued.claim.same_place(expected); });
  run::StuckReport report{.code = Code::non_determinism, .expected = describe(expected), .event_seq = seq};
  report.path = expected.path;
  if (found == outbox_.end()) {
    if (expected.kind == ClaimKind::patch) return;  // a mark whose code has been cleaned up
    report.actual = outbox_.empty() ? "nothing: the code asks for nothing more at this point"
                                    : describe(outbox_.front().claim);
    report.message = "history has what this code does not do";
    stick(std::move(report));
    return;
  }
  if (found->claim != expected) {
    report.actual = describe(found->claim);
    report.message = "this code does something else at the same place";
    stick(std::move(report));
    return;
  }
  // What was asked for in answer to an earlier event would have been recorded before this.
  const auto skipped =
      std::find_if(outbox_.begin(), found, [&](const Issued& issued) { return issued.round < found->round; });
  if (skipped != found) {
    report.actual = describe(skipped->claim);
    report.path = skipped->claim.path;
    report.message = "this code does something that history does not have";
    stick(std::move(report));
    return;
  }
  outbox_.erase(found);
}

void Instance::resume() {
  do {
    queue_.drain();
    handlers_.reap();
  } while (wake_watches());
  if (root_ && root_.done() && !ended_) finish();
}

/// True if somebody is ready again. In the order in which they began to wait.
bool Instance::wake_watches() {
  bool any = false;
  try {
    for (const Watch* watch : std::vector(watches_)) {
      if (watch->wait_.delivered() || !watch->condition_()) continue;
      watch->wait_.deliver({.from = WaitKind::condition});
      any = true;
    }
  } catch (const std::exception& thrown) {
    stick({.code = Code::workflow_threw, .message = std::string("a condition threw: ") + thrown.what()});
  } catch (...) {
    stick({.code = Code::workflow_threw, .message = "a condition threw something that is no std::exception"});
  }
  return any && !report_;
}

Instance::Watch::Watch(Instance& instance, const std::function<bool()>& condition, Wait& wait)
    : instance_(instance), condition_(condition), wait_(wait) {
  instance_.watches_.push_back(this);
}
Instance::Watch::~Watch() {
  std::erase(instance_.watches_, this);
}

void Instance::finish() {
  ended_ = true;
  try {
    Result<Json> result = root_.take();
    if (result) {
      auto payload = root_context_.payload_of(*result);
      if (payload) {
        issue(run::CompleteRun{std::move(*payload)});
        return;
      }
      result = std::unexpected(payload.error());
    }
    const base::Error& error = result.error();
    const Json details{{"code", base::name_of(error.code)}, {"message", error.message}};
    auto payload = root_context_.payload_of(details);
    issue(run::FailRun{.code = error.code,
                       .side = side_of(error.code),
                       .details = payload ? std::move(*payload) : core::Payload{}});
  } catch (const std::exception& thrown) {
    stick({.code = Code::workflow_threw, .message = std::string("workflow code threw: ") + thrown.what()});
  } catch (...) {
    stick(
        {.code = Code::workflow_threw, .message = "workflow code threw something that is no std::exception"});
  }
}

void Instance::stick(run::StuckReport report) {
  if (!report_) report_ = std::move(report);
}

std::uint64_t Instance::next_ordinal(const std::string& place) {
  return handlers_.forbids() ? 0 : ordinals_[place]++;
}

void Instance::issue(run::WorkflowCommand command) {
  if (handlers_.forbids()) return;
  Claim claim = claim_of(command);
  outbox_.push_back({std::move(command), std::move(claim), round_});
}

void Instance::register_wait(const Wait::Key& key, Wait& wait) {
  waits_[key].push_back(&wait);
}

void Instance::unregister_wait(const Wait::Key& key, Wait& wait) {
  const auto found = waits_.find(key);
  if (found == waits_.end()) return;
  std::erase(found->second, &wait);
  if (found->second.empty()) waits_.erase(found);
}

std::optional<Delivery> Instance::take_unread(const std::string& name) {
  const auto found = std::ranges::find_if(unread_, [&](const Unread& one) { return one.name == name; });
  if (found == unread_.end()) return std::nullopt;
  Delivery delivery{.from = WaitKind::signal, .payload = found->payload, .number = found->number};
  unread_.erase(found);
  return delivery;
}

std::optional<base::Code> Instance::lease_ended(const std::string& lease) const {
  const auto found = closed_leases_.find(lease);
  return found == closed_leases_.end() ? std::nullopt : std::optional(found->second);
}

bool Instance::patched(const std::string& id) {
  const auto answered = patch_answers_.find(id);
  if (answered != patch_answers_.end()) return answered->second;
  if (handlers_.forbids()) return false;
  const bool to_claim = patches_to_claim_.erase(id) > 0;
  bool answer = to_claim || known_patches_.contains(id);
  const bool fresh = !answer && !replaying();
  if (to_claim || fresh) issue(run::MarkPatched{id});
  if (fresh) {
    known_patches_.insert(id);
    answer = true;
  }
  patch_answers_[id] = answer;
  return answer;
}

base::Status Instance::checkpoint(void* frame, std::uint32_t schema_version, std::string bytes) {
  if (frame != root_.address() || !waits_.empty()) {
    return base::fail(
        Code::checkpoint_misplaced,
        "a checkpoint is legal only in the workflow's own function, outside branches, scopes and helpers, "
        "with nothing open");
  }
  if (handlers_.busy()) {
    return base::fail(Code::checkpoint_misplaced,
                      "an update is being carried out; co_await updates_done() before a checkpoint");
  }
  if (!workflow_.restart) {
    return base::fail(Code::checkpoint_misplaced,
                      "workflow " + workflow_.name + " is not registered as checkpointing");
  }
  if (root_scope_.cancelled()) return base::fail(Code::cancelled, "the run is cancelled");
  if (awaits_child()) {
    return base::fail(Code::checkpoint_misplaced, "a checkpoint with an open child run: wait for it first");
  }
  auto signals = carried_signals(bytes.size(), "a checkpoint");
  if (!signals) return std::unexpected(signals.error());
  run::Checkpoint command{.state = payload(core::Encoding::cereal, std::move(bytes)),
                          .schema_version = schema_version,
                          .signals = std::move(*signals)};
  issue(std::move(command));
  ++generation_;
  root_context_.prefix_ = std::to_string(generation_);
  // What a rebuild from here would not know must not be known any more (J15).
  ordinals_.clear();
  closed_leases_.clear();
  children_.clear();
  patch_answers_.clear();
  return {};
}

base::Result<std::vector<run::CarriedSignal>> Instance::carried_signals(std::size_t bytes,
                                                                        std::string_view into) const {
  constexpr std::size_t kOverhead = 256;  // of one in the record, besides its own bytes
  std::vector<run::CarriedSignal> signals;
  for (const Unread& signal : unread_) {
    core::Payload carried;
    if (signal.payload)
      carried = {signal.payload, digest_key_.digest(signal.payload->encoding, signal.payload->bytes)};
    bytes += kOverhead + signal.name.size() + (signal.payload ? signal.payload->bytes.size() : 0);
    signals.push_back({signal.number, signal.name, std::move(carried)});
  }
  if (bytes <= run::kMaxPayloadBytes) return signals;
  return base::fail(Code::record_too_large,
                    "state and " + std::to_string(signals.size()) + " unread signals have " +
                        std::to_string(bytes) + " bytes; at most " + std::to_string(run::kMaxPayloadBytes) +
                        " fit into " + std::string(into) + ": take some of the signals first");
}

/// Abandoned ones go on whatever becomes of this run.
bool Instance::awaits_child() const {
  return std::ranges::any_of(children_, [](const auto& child) {
    return !child.second.end && child.second.policy != run::ClosePolicy::abandon;
  });
}

base::Status Instance::start_child(run::StartChild command) {
  constexpr std::size_t kMaxOpen = 1000;  // the end of a run is one record, and has a word for each
  if (children_.size() >= kMaxOpen) {
    return base::fail(Code::record_too_large, "a run may have " + std::to_string(kMaxOpen) +
                                                  " children that have not been waited for; wait for some");
  }
  if (command.version.empty()) command.version = registry_.latest(command.workflow);
  children_[command.path] = {.policy = command.policy, .end = std::nullopt};
  issue(std::move(command));
  return {};
}

std::optional<Delivery> Instance::take_ended_child(const std::string& path) {
  const auto found = children_.find(path);
  if (found == children_.end() || !found->second.end) return std::nullopt;
  std::optional<Delivery> end = std::move(found->second.end);
  children_.erase(found);
  return end;
}

base::Status Instance::continue_as_new(void* frame, core::Payload input) {
  if (frame != root_.address() || !waits_.empty() || awaits_child()) {
    return base::fail(
        Code::checkpoint_misplaced,
        "a run goes on as new only from the workflow's own function, with nothing open: each step, "
        "timer, operation and child run must have ended");
  }
  if (handlers_.busy()) {
    return base::fail(Code::checkpoint_misplaced,
                      "an update is being carried out; co_await updates_done() before going on as new");
  }
  if (root_scope_.cancelled()) return base::fail(Code::cancelled, "the run is cancelled");
  auto signals = carried_signals(input.slot ? input.slot->bytes.size() : 0, "the start of the next run");
  if (!signals) return std::unexpected(signals.error());
  issue(run::ContinueAsNew{.version = registry_.latest(workflow_.name),
                           .input = std::move(input),
                           .signals = std::move(*signals)});
  ended_ = true;
  return {};
}

}  // namespace sandglass::engine::workflow
