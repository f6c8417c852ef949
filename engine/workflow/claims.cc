#include "engine/workflow/claims.h"

#include <variant>

namespace sandglass::engine::workflow {
namespace {

std::string text_of(const core::StreamId& stream) {
  return stream.text();
}

/// A timer's due time is part of what it is: code that sleeps longer than before is other code. It depends on
/// the activating event's time alone, so replay computes the same.
std::string text_of(std::int64_t due_ms) {
  return std::to_string(due_ms);
}

struct OfCommand {
  Claim operator()(const run::ScheduleStep& c) const {
    return {ClaimKind::step, c.path, c.activity, c.input.digest};
  }
  Claim operator()(const run::CancelStep& c) const { return {ClaimKind::step_cancel, c.path, {}, {}}; }
  Claim operator()(const run::ScheduleOperation& c) const {
    return {ClaimKind::operation, c.path, c.tool, c.input.digest};
  }
  Claim operator()(const run::CancelOperation& c) const {
    return {ClaimKind::operation_cancel, c.path, {}, {}};
  }
  Claim operator()(const run::StartTimer& c) const {
    return {ClaimKind::timer, c.path, text_of(c.due_ms), {}};
  }
  Claim operator()(const run::CancelTimer& c) const { return {ClaimKind::timer_cancel, c.path, {}, {}}; }
  Claim operator()(const run::TakeSignal& c) const {
    return {ClaimKind::signal, c.path, std::to_string(c.number), {}};
  }
  Claim operator()(const run::SetAttributes& c) const {
    return {ClaimKind::attributes, c.path, {}, c.attributes.digest};
  }
  Claim operator()(const run::CompleteUpdate& c) const {
    return {ClaimKind::update, std::to_string(c.number), std::string(base::name_of(c.code)), c.result.digest};
  }
  Claim operator()(const run::OpenExchange& c) const {
    return {ClaimKind::exchange, c.path, text_of(c.target), c.payload.digest};
  }
  Claim operator()(const run::WithdrawExchange& c) const {
    return {ClaimKind::exchange_withdrawal, c.path, {}, {}};
  }
  Claim operator()(const run::SendMessage& c) const {
    return {ClaimKind::message, c.path, text_of(c.target), c.payload.digest};
  }
  Claim operator()(const run::ReleaseLease& c) const {
    return {ClaimKind::lease_release, c.path, c.lease, {}};
  }
  Claim operator()(const run::StartChild& c) const {
    return {ClaimKind::child, c.path, c.workflow, c.input.digest};
  }
  Claim operator()(const run::CancelChild& c) const { return {ClaimKind::child_cancel, c.path, {}, {}}; }
  Claim operator()(const run::ContinueAsNew& c) const {
    return {ClaimKind::end, {}, "continued", c.input.digest};
  }
  Claim operator()(const run::SetPhase& c) const {
    return {ClaimKind::phase, c.path, std::string(run::name_of(c.phase)), {}};
  }
  Claim operator()(const run::MarkPatched& c) const { return {ClaimKind::patch, c.id, {}, {}}; }
  Claim operator()(const run::Checkpoint& c) const { return {ClaimKind::checkpoint, {}, {}, c.state.digest}; }
  Claim operator()(const run::CompleteRun& c) const {
    return {ClaimKind::end, {}, "completed", c.result.digest};
  }
  /// Whether it ends as cancelled is the decider's word.
  Claim operator()(const run::FailRun& c) const { return {ClaimKind::end, {}, "failed", c.details.digest}; }
};

struct OfEvent {
  using Maybe = std::optional<Claim>;

  Maybe operator()(const run::StepScheduled& e) const {
    return Claim{ClaimKind::step, e.path, e.activity, e.input.digest};
  }
  Maybe operator()(const run::StepCancelled& e) const {
    return Claim{ClaimKind::step_cancel, e.path, {}, {}};
  }
  Maybe operator()(const run::OperationScheduled& e) const {
    return Claim{ClaimKind::operation, e.path, e.tool, e.input.digest};
  }
  Maybe operator()(const run::OperationCancelRequested& e) const {
    return Claim{ClaimKind::operation_cancel, e.path, {}, {}};
  }
  Maybe operator()(const run::TimerStarted& e) const {
    return Claim{ClaimKind::timer, e.path, text_of(e.due_ms), {}};
  }
  Maybe operator()(const run::TimerCancelled& e) const {
    return Claim{ClaimKind::timer_cancel, e.path, {}, {}};
  }
  Maybe operator()(const run::SignalTaken& e) const {
    return Claim{ClaimKind::signal, e.path, std::to_string(e.number), {}};
  }
  Maybe operator()(const run::AttributesSet& e) const {
    return Claim{ClaimKind::attributes, e.path, {}, e.attributes.digest};
  }
  Maybe operator()(const run::UpdateCompleted& e) const {
    return Claim{ClaimKind::update, std::to_string(e.number), std::string(base::name_of(e.code)),
                 e.result.digest};
  }
  Maybe operator()(const run::ExchangeOpened& e) const {
    return Claim{ClaimKind::exchange, e.path, text_of(e.target), e.payload};
  }
  Maybe operator()(const run::ExchangeWithdrawn& e) const {
    return Claim{ClaimKind::exchange_withdrawal, e.path, {}, {}};
  }
  Maybe operator()(const run::MessageSent& e) const {
    return Claim{ClaimKind::message, e.path, text_of(e.target), e.payload};
  }
  Maybe operator()(const run::LeaseReleased& e) const {
    return Claim{ClaimKind::lease_release, e.path, e.lease, {}};
  }
  Maybe operator()(const run::ChildScheduled& e) const {
    return Claim{ClaimKind::child, e.path, e.workflow, e.input.digest};
  }
  Maybe operator()(const run::ChildCancelRequested& e) const {
    return Claim{ClaimKind::child_cancel, e.path, {}, {}};
  }
  Maybe operator()(const run::RunContinued& e) const {
    return Claim{ClaimKind::end, {}, "continued", e.input.digest};
  }
  Maybe operator()(const run::PhaseSet& e) const {
    return Claim{ClaimKind::phase, e.path, std::string(run::name_of(e.phase)), {}};
  }
  Maybe operator()(const run::PatchMarked& e) const { return Claim{ClaimKind::patch, e.id, {}, {}}; }
  Maybe operator()(const run::Checkpointed& e) const {
    return Claim{ClaimKind::checkpoint, {}, {}, e.state.digest};
  }
  Maybe operator()(const run::RunCompleted& e) const {
    return Claim{ClaimKind::end, {}, "completed", e.result.digest};
  }
  Maybe operator()(const run::RunFailed& e) const {
    return Claim{ClaimKind::end, {}, "failed", e.details.digest};
  }
  Maybe operator()(const run::RunCancelled& e) const {
    return Claim{ClaimKind::end, {}, "failed", e.details.digest};
  }
  template <class Other>
  Maybe operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::string_view name_of(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::step:
      return "step";
    case ClaimKind::step_cancel:
      return "cancelled step";
    case ClaimKind::operation:
      return "operation";
    case ClaimKind::operation_cancel:
      return "cancelled operation";
    case ClaimKind::timer:
      return "timer";
    case ClaimKind::timer_cancel:
      return "cancelled timer";
    case ClaimKind::signal:
      return "taken signal";
    case ClaimKind::attributes:
      return "search attributes";
    case ClaimKind::update:
      return "answered update";
    case ClaimKind::exchange:
      return "exchange";
    case ClaimKind::exchange_withdrawal:
      return "withdrawn exchange";
    case ClaimKind::message:
      return "message";
    case ClaimKind::lease_release:
      return "released lease";
    case ClaimKind::child:
      return "child run";
    case ClaimKind::child_cancel:
      return "cancelled child run";
    case ClaimKind::phase:
      return "phase";
    case ClaimKind::patch:
      return "patch mark";
    case ClaimKind::checkpoint:
      return "checkpoint";
    case ClaimKind::end:
      return "end of the run";
  }
  return "unknown";
}

Claim claim_of(const run::WorkflowCommand& command) {
  return std::visit(OfCommand{}, command);
}
std::optional<Claim> claim_of(const run::Event& event) {
  return std::visit(OfEvent{}, event);
}

std::string describe(const Claim& claim) {
  std::string text(name_of(claim.kind));
  if (!claim.path.empty()) text += " " + claim.path;
  std::string more = claim.name;
  if (claim.digest != core::ContentDigest{}) {
    if (!more.empty()) more += ", ";
    more += "payload " + claim.digest.hash.hex().substr(0, 12);
  }
  return more.empty() ? text : text + " (" + more + ")";
}

}  // namespace sandglass::engine::workflow
