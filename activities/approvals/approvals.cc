#include "activities/approvals/approvals.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace sandglass::activities::approvals {

namespace {

using Decider = ApprovalsDecider;
using State = ApprovalsState;
using Writer = core::TurnWriter<Decider::Event>;

std::string expiry_timer(const std::string& id) {
  return core::kCalendarTimer + ("expiry:" + id);
}

base::Code code_of(ApprovalStatus status) {
  switch (status) {
    case ApprovalStatus::approved:
      return base::Code::ok;
    case ApprovalStatus::denied:
      return base::Code::approval_denied;
    case ApprovalStatus::expired:
      return base::Code::approval_expired;
    case ApprovalStatus::waiting:
    case ApprovalStatus::withdrawn:
    case ApprovalStatus::lapsed:
    case ApprovalStatus::answered:
      break;
  }
  return base::Code::approval_withdrawn;
}

/// Why what is no longer waiting cannot be decided so; nullopt: it was decided exactly so.
std::optional<base::Error> conflict(const Approval& approval, const Decide& decision) {
  const bool approve = decision.approve;
  const std::string when = " at " + std::to_string(approval.ended_ms) + " ms";
  switch (approval.status) {
    case ApprovalStatus::approved:
    case ApprovalStatus::denied: {
      if ((approval.status == ApprovalStatus::approved) == approve) return std::nullopt;
      const std::string who = approval.verdicts.empty() ? "nobody" : approval.verdicts.back().who;
      return base::Error{base::Code::approval_decided, "it was " + std::string(name_of(approval.status)) +
                                                           " by " + who + when + "; a decision is final"};
    }
    case ApprovalStatus::expired:
      return base::Error{base::Code::approval_expired, "it expired at " +
                                                           std::to_string(approval.expires_ms) +
                                                           " ms; nothing was done; the run must ask again"};
    case ApprovalStatus::lapsed:
      return base::Error{base::Code::approval_withdrawn,
                         "it was approved, but its run ended before using it" + when};
    case ApprovalStatus::answered: {
      const Verdict& last = approval.verdicts.back();
      if (last.outcome == decision.outcome) return std::nullopt;
      return base::Error{base::Code::approval_decided,
                         last.who + " has said \"" +
                             std::string(name_of(last.outcome.value_or(core::OutcomeVerdict::not_done))) +
                             "\"" + when + "; a decision is final"};
    }
    case ApprovalStatus::waiting:
    case ApprovalStatus::withdrawn:
      break;
  }
  return base::Error{base::Code::approval_withdrawn, "its run ended or no longer waits for it" + when};
}

class Turn {
 public:
  Turn(const State& state, const core::DecideInput& input, Writer& writer)
      : state_(state), input_(input), writer_(writer) {}

  void asked(const core::Message& message, const core::ApprovalRequested& request) {
    const std::string id = approval_id(message.source, message.correlation);
    const auto known = state_.approvals.find(id);
    if (known != state_.approvals.end()) {
      if (known->second.status != ApprovalStatus::waiting) answer(known->second, known->second.status, {});
      return;
    }
    // The run reckons in the engine's time; a person is told, and held to, what the clock on the wall shows.
    const std::int64_t wait = request.expires_ms > 0 ? request.expires_ms - input_.now_ms : kDefaultExpiryMs;
    const std::int64_t expires = input_.calendar() + wait;
    writer_.start_timer(expiry_timer(id), expires);
    writer_.emit(ApprovalAsked{.id = id,
                               .run = message.source,
                               .correlation = message.correlation,
                               .tenant = request.tenant,
                               .user = request.user,
                               .tool = request.tool,
                               .level = request.level,
                               .arguments = request.arguments,
                               .request = writer_.store(message.payload),
                               .approvers = std::max(request.approvers, 1U),
                               .expires_ms = expires});
  }

  void outcome_asked(const core::Message& message, const core::OutcomeAsked& asked) {
    const std::string id = approval_id(message.source, message.correlation);
    if (state_.approvals.contains(id)) return;  // asked again: the answer, if there is one, is on its way
    writer_.emit(ApprovalAsked{.id = id,
                               .run = message.source,
                               .correlation = message.correlation,
                               .tenant = asked.tenant,
                               .user = asked.user,
                               .tool = asked.tool,
                               .level = asked.level,
                               .arguments = asked.input.digest,
                               .doubt = Doubt{.path = asked.path,
                                              .target = asked.target,
                                              .key = asked.key,
                                              .attempt = asked.attempt,
                                              .code = asked.code,
                                              .sent_ms = asked.sent_ms,
                                              .unknown_ms = asked.unknown_ms,
                                              .input = asked.input}});
  }

  void withdrawn(const core::Message& message) {
    const std::string id = approval_id(message.source, message.correlation);
    const auto found = state_.approvals.find(id);
    if (found == state_.approvals.end()) return;
    if (found->second.status == ApprovalStatus::waiting) {
      if (!found->second.doubt) writer_.end_timer(expiry_timer(id), found->second.expires_ms);
      writer_.emit(ApprovalEnded{id, ApprovalStatus::withdrawn});
    } else if (found->second.status == ApprovalStatus::approved) {
      writer_.emit(ApprovalEnded{id, ApprovalStatus::lapsed});
    }
  }

  void fired(const core::TimerFired& timer) {
    writer_.end_timer(timer.key, timer.due_ms);
    for (const auto& [id, approval] : state_.approvals) {
      if (timer.key != expiry_timer(id) || approval.status != ApprovalStatus::waiting) continue;
      answer(approval, ApprovalStatus::expired, {});
      writer_.emit(ApprovalEnded{id, ApprovalStatus::expired});
      return;
    }
  }

  base::Status decided(const Decide& decision) {
    const auto found = state_.approvals.find(decision.id);
    if (found == state_.approvals.end() ||
        (!decision.tenant.empty() && decision.tenant != found->second.tenant)) {
      return base::fail(base::Code::not_found,
                        "no approval \"" + decision.id + "\"; list what waits with: sandglass approvals");
    }
    const Approval& approval = found->second;
    if (decision.arguments != approval.arguments) {
      return base::fail(base::Code::approval_mismatch,
                        "approval " + decision.id + " waits for arguments with digest " +
                            approval.arguments.hash.hex() + ", the decision names " +
                            decision.arguments.hash.hex() + "; look at it again before you decide");
    }
    if (approval.doubt.has_value() != decision.outcome.has_value()) {
      return base::fail(base::Code::invalid_argument,
                        approval.doubt ? decision.id +
                                             " asks what became of an effect; find out, then say it with: "
                                             "sandglass settle " +
                                             decision.id + " done|not-done|again"
                                       : decision.id + " asks for a yes or no: sandglass approve, or deny");
    }
    if (approval.status != ApprovalStatus::waiting) {
      auto error = conflict(approval, decision);
      if (!error) return {};
      return base::fail(error->code, "approval " + decision.id + ": " + error->message);
    }
    if (approval.doubt) return settle(decision, approval);
    if (input_.calendar() >= approval.expires_ms) {
      return base::fail(base::Code::approval_expired, "approval " + decision.id + " expired at " +
                                                          std::to_string(approval.expires_ms) +
                                                          " ms; nothing was done; the run must ask again");
    }
    return give(decision, approval);
  }

 private:
  base::Status settle(const Decide& decision, const Approval& approval) {
    const bool own = decision.who == approval.user;
    if (own && approval.level >= 3) {
      return base::fail(base::Code::permission_denied,
                        decision.id + " is of level 3: somebody other than " + approval.user +
                            ", for whom the run acts, must say what became of it");
    }
    writer_.emit(VerdictGiven{decision.id,
                              {.who = decision.who,
                               .role = decision.role,
                               .at_ms = input_.now_ms,
                               .own_request = own,
                               .reason = writer_.store(decision.reason),
                               .outcome = decision.outcome}});
    writer_.send(approval.run, approval.correlation,
                 core::OutcomeDecided{approval.arguments, *decision.outcome, decision.who}, decision.result);
    writer_.emit(ApprovalEnded{decision.id, ApprovalStatus::answered});
    return {};
  }

  base::Status give(const Decide& decision, const Approval& approval) {
    const bool own = decision.who == approval.user;
    if (own && approval.level >= 3 && decision.approve) {
      return base::fail(base::Code::permission_denied,
                        "approval " + decision.id + " is of level 3: somebody other than " + approval.user +
                            ", for whom the run acts, must approve it");
    }
    std::uint32_t approvals = 0;
    for (const Verdict& verdict : approval.verdicts) {
      if (verdict.who == decision.who && decision.approve) return {};  // the same word again
      ++approvals;
    }
    writer_.emit(VerdictGiven{decision.id,
                              {.approve = decision.approve,
                               .who = decision.who,
                               .role = decision.role,
                               .at_ms = input_.now_ms,
                               .own_request = own,
                               .reason = writer_.store(decision.reason)}});
    if (decision.approve && approvals + 1 < approval.approvers) return {};
    const ApprovalStatus status = decision.approve ? ApprovalStatus::approved : ApprovalStatus::denied;
    writer_.end_timer(expiry_timer(decision.id), approval.expires_ms);
    answer(approval, status, decision.reason);
    writer_.emit(ApprovalEnded{decision.id, status});
    return {};
  }

  void answer(const Approval& approval, ApprovalStatus status, const core::Payload& reason) {
    writer_.send(approval.run, approval.correlation,
                 core::ApprovalDecided{code_of(status), approval.arguments}, reason);
  }

  const State& state_;
  const core::DecideInput& input_;
  Writer& writer_;
};

struct Evolve {
  State& state;
  const core::TurnInfo& info;

  void operator()(const ApprovalAsked& event) {
    state.approvals[event.id] = {.run = event.run,
                                 .correlation = event.correlation,
                                 .tenant = event.tenant,
                                 .user = event.user,
                                 .tool = event.tool,
                                 .level = event.level,
                                 .arguments = event.arguments,
                                 .request = event.request,
                                 .approvers = event.approvers,
                                 .asked_ms = info.time_ms,
                                 .expires_ms = event.expires_ms,
                                 .doubt = event.doubt};
  }
  void operator()(const VerdictGiven& event) {
    const auto found = state.approvals.find(event.id);
    if (found != state.approvals.end()) found->second.verdicts.push_back(event.verdict);
  }
  void operator()(const ApprovalEnded& event) {
    const auto found = state.approvals.find(event.id);
    if (found == state.approvals.end()) return;
    const bool first_end = found->second.status == ApprovalStatus::waiting;
    found->second.status = event.status;
    found->second.ended_ms = info.time_ms;
    if (!first_end) return;
    state.ended.push_back(event.id);
    if (state.ended.size() > kEndedKept) {
      state.approvals.erase(state.ended.front());
      state.ended.pop_front();
    }
  }
};

}  // namespace

std::string_view name_of(ApprovalStatus status) {
  switch (status) {
    case ApprovalStatus::waiting:
      return "waiting";
    case ApprovalStatus::approved:
      return "approved";
    case ApprovalStatus::denied:
      return "denied";
    case ApprovalStatus::expired:
      return "expired";
    case ApprovalStatus::withdrawn:
      return "withdrawn";
    case ApprovalStatus::lapsed:
      return "lapsed";
    case ApprovalStatus::answered:
      return "answered";
  }
  return "unknown";
}

base::Status ApprovalsDecider::decide(const State& state, const Command& command,
                                      const core::DecideInput& input, core::TurnWriter<Event>& writer) {
  Turn turn(state, input, writer);
  if (const auto* decision = std::get_if<Decide>(&command)) return turn.decided(*decision);
  if (const auto* timer = std::get_if<core::TimerFired>(&command)) {
    turn.fired(*timer);
    return {};
  }
  const core::Message& message = std::get<core::MessageReceived>(command).message;
  if (const auto* request = std::get_if<core::ApprovalRequested>(&message.body)) {
    turn.asked(message, *request);
  } else if (const auto* question = std::get_if<core::OutcomeAsked>(&message.body)) {
    turn.outcome_asked(message, *question);
  } else if (std::holds_alternative<core::ApprovalWithdrawn>(message.body)) {
    turn.withdrawn(message);
  }
  return {};
}

void ApprovalsDecider::evolve(State& state, const Event& event, const core::TurnInfo& info) {
  std::visit(Evolve{state, info}, event);
}

core::StreamId approvals_stream() {
  return core::StreamId::named(core::StreamKind::approvals, "");
}

std::string approval_id(const core::StreamId& run, std::string_view correlation) {
  return "ap-" + base::Sha256().update(run.bytes()).update(correlation).finish().hex().substr(0, 16);
}

}  // namespace sandglass::activities::approvals
