// The approvals decider: one stream per cluster, the one inbox of what waits for people: approvals before an
// effect, and questions about effects of unknown outcome. Either is bound to the ContentDigest of the
// arguments that it was asked for, is decided once, and ends by a decision, its deadline or its run; never by
// anyone's waiting.
//
//   ApprovalRequested ─▶ waiting ─(enough approvals)─▶ approved ─(run gone before it was used)─▶ lapsed
//                           ├─(one denial)───────────▶ denied
//                           ├─(deadline)─────────────▶ expired
//                           └─(run ended, or waits no longer)─▶ withdrawn
//   OutcomeAsked ──────▶ waiting ─(a person says what became of the effect)─▶ answered
//                           └─(run ended, or it was settled otherwise)─▶ withdrawn
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/core/decider.h"

namespace sandglass::activities::approvals {

namespace base = engine::base;
namespace core = engine::core;

/// Values are stored.
enum class ApprovalStatus : std::uint8_t {
  waiting = 1,
  approved = 2,
  denied = 3,
  expired = 4,    // nobody decided in time: not a denial (ADV-G9)
  withdrawn = 5,  // the run ended or no longer waits
  lapsed = 6,     // approved, but the run was gone (FR-122)
  answered = 7,   // a question: somebody said what became of the effect
};
std::string_view name_of(ApprovalStatus status);

/// A waiting approval (not: question) without a deadline of its own gets this one.
inline constexpr std::int64_t kDefaultExpiryMs = 24 * 3'600'000;
/// So many approvals that have ended stay listed; older ones are in history only.
inline constexpr std::size_t kEndedKept = 1000;

/// One person's word.
struct Verdict {
  bool approve = false;
  std::string who;
  std::string role;
  std::int64_t at_ms = 0;
  bool own_request = false;                     // decided by the one for whom the run acts
  core::PayloadRef reason;                      // JSON {"who", "why"}
  std::optional<core::OutcomeVerdict> outcome;  // of a question; then `approve` says nothing
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// What is in doubt about an effect, of a question. The effect's input is a payload of the run.
struct Doubt {
  std::string path;
  std::string target;
  std::string key;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::operation_unknown;
  std::int64_t sent_ms = 0;
  std::int64_t unknown_ms = 0;
  core::PayloadRef input;
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

struct Approval {
  core::StreamId run;
  std::string correlation;
  std::string tenant;
  std::string user;
  std::string tool;
  std::uint32_t level = 2;
  core::ContentDigest arguments;
  core::PayloadRef request;  // what is shown
  std::uint32_t approvers = 1;
  std::int64_t asked_ms = 0;
  std::int64_t expires_ms = 0;
  ApprovalStatus status = ApprovalStatus::waiting;
  std::int64_t ended_ms = 0;
  std::vector<Verdict> verdicts;
  std::optional<Doubt> doubt;  // set: a question. It has no deadline: waiting cannot settle it
  friend bool operator==(const Approval&, const Approval&) = default;
};

struct ApprovalsState {
  std::map<std::string, Approval> approvals;  // by id
  std::deque<std::string> ended;              // ids, oldest first
  friend bool operator==(const ApprovalsState&, const ApprovalsState&) = default;
};

struct ApprovalAsked {
  std::string id;
  core::StreamId run;
  std::string correlation, tenant, user, tool;
  std::uint32_t level = 2;
  core::ContentDigest arguments;
  core::PayloadRef request;
  std::uint32_t approvers = 1;
  std::int64_t expires_ms = 0;
  std::optional<Doubt> doubt;
  friend bool operator==(const ApprovalAsked&, const ApprovalAsked&) = default;
};
struct VerdictGiven {
  std::string id;
  Verdict verdict;
  friend bool operator==(const VerdictGiven&, const VerdictGiven&) = default;
};
/// The approval has reached an end.
struct ApprovalEnded {
  std::string id;
  ApprovalStatus status = ApprovalStatus::approved;
  friend bool operator==(const ApprovalEnded&, const ApprovalEnded&) = default;
};

/// A person's decision. Refused, without any change:
///   not_found            no such approval, or of another tenant
///   approval_mismatch    `arguments` is not what the approval is bound to (in every state first, FR-14)
///   approval_expired     the deadline has passed by the calendar, whether or not its timer has fired
///   (FR-109) approval_withdrawn   the run no longer waits, or was gone before it used the approval
///   approval_decided     decided otherwise already; the message says what, by whom and when
///   invalid_argument     yes or no to a question about an outcome, or an outcome for an approval
///   permission_denied    level 3, and who says yes, or what became of an effect, is the one for whom the run
///                        acts (four eyes)
/// Deciding the same again is a success that changes nothing (FR-112, FR-113).
struct Decide {
  std::string id;
  core::ContentDigest arguments;
  bool approve = false;
  std::string tenant;  // of the caller; empty: an operator of all tenants
  std::string who;
  std::string role;                             // under which the caller may decide
  core::Payload reason;                         // JSON {"who", "why"}; goes to the run with the decision
  std::optional<core::OutcomeVerdict> outcome;  // of a question
  core::Payload result;                         // outcome done: what the workflow gets, JSON
};

struct ApprovalsDecider {
  using State = ApprovalsState;
  using Event = std::variant<ApprovalAsked, VerdictGiven, ApprovalEnded>;
  using Command = std::variant<Decide, core::MessageReceived, core::TimerFired>;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& turn);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State&, const core::DecideInput&, std::vector<core::Action>&) {}
  static bool in_flight(const State&) { return false; }
};

/// The one approvals stream.
core::StreamId approvals_stream();
/// The approval that run `run` asks for under this exchange path.
std::string approval_id(const core::StreamId& run, std::string_view correlation);

}  // namespace sandglass::activities::approvals
