// approvals, approve, deny.
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "engine/base/hash.h"
#include "replay-tools/cli/approval_text.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

/// The approval that is meant: by its id, by its run's id, or the only one that waits.
base::Result<api::ApprovalView> find_approval(client::Client& client, const std::string& id) {
  api::ListApprovalsRequest request;
  request.set_ended_too(!id.empty());
  const auto known = client.list_approvals(request);
  if (!known) return std::unexpected(known.error());
  std::vector<api::ApprovalView> meant;
  for (const auto& approval : known->approvals()) {
    if (approval.approval_id() == id) return approval;
    if (approval.status() == "waiting" && (id.empty() || approval.run_id() == id)) meant.push_back(approval);
  }
  if (meant.size() == 1) return meant.front();
  if (meant.empty()) {
    return base::fail(Code::not_found,
                      id.empty() ? "no approval waits" : "no approval " + id + " is known to this token");
  }
  return base::fail(Code::usage, std::to_string(meant.size()) +
                                     " approvals wait; name one of them (`sandglass approvals` lists them)");
}

bool person_agrees(bool approve) {
  // What was typed before the question was there is no answer to it.
  tcflush(STDIN_FILENO, TCIFLUSH);
  std::fputs(paint(Colour::bold, approve ? "Approve? [y/n] " : "Deny? [y/n] ").c_str(), stdout);
  std::fflush(stdout);
  std::array<char, 64> line{};
  return std::fgets(line.data(), line.size(), stdin) != nullptr && (line[0] == 'y' || line[0] == 'Y');
}

}  // namespace

Outcome decide(Session& session, const ApprovalArgs& args) {
  auto client = session.open("approver");
  if (!client) return std::unexpected(client.error());
  auto approval = find_approval(**client, args.id);
  if (!approval) return std::unexpected(approval.error());
  std::string digest = approval->arguments_digest();
  if (!args.digest.empty()) {
    const auto given = engine::base::Hash256::from_hex(args.digest);
    if (!given) return base::fail(Code::usage, "--digest takes 64 hex digits");
    digest = std::string(given->view());
  }
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (!session.json()) std::fputs(approval_text(*approval).c_str(), stdout);
  const bool asks = !args.yes && !session.json() && args.digest.empty();
  if (asks && !terminal) {
    return base::fail(
        Code::usage,
        "nobody can be asked without a terminal, so nothing was decided; look at the above, then "
        "give --digest with its arguments digest, or --yes");
  }
  if (asks && !person_agrees(args.approve)) {
    print_line("nothing was decided; it still waits. The other way: " +
               session.hint((args.approve ? "deny " : "approve ") + approval->approval_id()));
    return base::Exit::ok;
  }
  api::DecideRequest request;
  request.set_request_id(args.request_id.empty() ? client::new_request_id() : args.request_id);
  request.set_approval_id(approval->approval_id());
  request.set_approve(args.approve);
  request.set_arguments_digest(digest);
  request.set_reason(args.reason);
  const auto decided = (*client)->decide(request);
  if (!decided) return std::unexpected(decided.error());
  if (session.json()) {
    print_line(to_json({{"approval_id", approval->approval_id()},
                        {"run_id", approval->run_id()},
                        {"decision", args.approve ? "approved" : "denied"},
                        {"arguments_digest", engine::base::to_hex(digest)}}));
  } else {
    print_line(args.approve ? paint(Colour::green, "approved") : paint(Colour::red, "denied"));
  }
  return base::Exit::ok;
}

Outcome list_approvals(Session& session, const ApprovalArgs& args) {
  auto client = session.open("approver");
  if (!client) return std::unexpected(client.error());
  api::ListApprovalsRequest request;
  request.set_run_id(args.id);
  const auto waiting = (*client)->list_approvals(request);
  if (!waiting) return std::unexpected(waiting.error());
  if (session.json()) {
    print_line(to_json(*waiting));
    return base::Exit::ok;
  }
  for (const auto& approval : waiting->approvals()) std::fputs(approval_text(approval).c_str(), stdout);
  if (waiting->approvals_size() == 0) print_line(paint(Colour::dim, "no approval waits"));
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
