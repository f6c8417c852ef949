#include "engine/api/approval_view.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/api/run_detail.h"
#include "engine/identity/access.h"

namespace sandglass::engine::api {

namespace v1 = ::sandglass::v1;
namespace approvals = activities::approvals;
using identity::Caller;

namespace {

/// What is shown of an approval but for its payloads, which are elsewhere.
v1::ApprovalView approval_view(const std::string& id, const approvals::Approval& approval) {
  v1::ApprovalView view;
  view.set_approval_id(id);
  view.set_run_id(approval.run.text());
  view.set_tenant(approval.tenant);
  view.set_user(approval.user);
  view.set_tool(approval.tool);
  view.set_level(approval.level);
  view.set_arguments_digest(std::string(approval.arguments.hash.view()));
  view.set_asked_ms(approval.asked_ms);
  view.set_expires_ms(approval.expires_ms);
  view.set_status(std::string(name_of(approval.status)));
  view.set_approvers(approval.approvers);
  view.set_kind(approval.doubt ? "outcome" : "approval");
  for (const auto& verdict : approval.verdicts) {
    auto& out = *view.add_verdicts();
    out.set_approve(verdict.approve);
    out.set_who(verdict.who);
    out.set_at_ms(verdict.at_ms);
    if (verdict.outcome)
      out.set_outcome(static_cast<v1::OutcomeVerdict>(static_cast<int>(*verdict.outcome) + 1));
  }
  return view;
}

/// A question as JSON: what is unknown and why, and what was to be sent, which is a payload of the run.
base::Result<std::string> question_text(const journal::Reader& reader, const approvals::Approval& approval) {
  const approvals::Doubt& doubt = *approval.doubt;
  // The operation's row of the run has the target's own words.
  const std::string why = doubt.code == base::Code::operation_unknown
                              ? "what came back, if anything, does not say so"
                              : std::string(base::title_of(doubt.code));
  nlohmann::ordered_json shown = {{"reason", "whether it happened is unknown: " + why},
                                  {"target", doubt.target},
                                  {"operation", doubt.path},
                                  {"key", doubt.key},
                                  {"attempt", doubt.attempt},
                                  {"sent_ms", doubt.sent_ms},
                                  {"unknown_since_ms", doubt.unknown_ms}};
  auto input = read_payload(reader, approval.run, doubt.input);
  if (!input) return std::unexpected(input.error());
  if (*input) {
    auto arguments = nlohmann::ordered_json::parse((*input)->bytes, nullptr, /*allow_exceptions=*/false);
    if (!arguments.is_discarded()) shown["arguments"] = std::move(arguments);
  }
  return shown.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

base::Result<v1::ListApprovalsReply> read_approvals(const journal::Reader& reader, const Caller& caller,
                                                    const approvals::ApprovalsState& state,
                                                    const std::string& run_id, bool ended_too) {
  v1::ListApprovalsReply reply;
  for (const auto& [id, approval] : state.approvals) {
    if (!identity::may_touch(caller, approval.tenant, approval.user)) continue;
    if (!run_id.empty() && approval.run.text() != run_id) continue;
    if (!ended_too && approval.status != approvals::ApprovalStatus::waiting) continue;
    auto& view = *reply.add_approvals();
    view = approval_view(id, approval);
    if (approval.doubt) {
      auto shown = question_text(reader, approval);
      if (!shown) return std::unexpected(shown.error());
      view.set_request(*std::move(shown));
    } else {
      auto request = read_payload(reader, approvals::approvals_stream(), approval.request);
      if (!request) return std::unexpected(request.error());
      if (*request) view.set_request((*request)->bytes);
    }
    for (std::size_t i = 0; i < approval.verdicts.size(); ++i) {
      auto reason = read_payload(reader, approvals::approvals_stream(), approval.verdicts[i].reason);
      if (!reason) return std::unexpected(reason.error());
      if (*reason) view.mutable_verdicts(static_cast<int>(i))->set_reason((*reason)->bytes);
    }
  }
  return reply;
}

}  // namespace sandglass::engine::api
