// approvals, approve, deny, settle.
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>

#include "engine/base/hash.h"
#include "replay-tools/cli/approval_text.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/one_run.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

/// The one of this kind that is meant: by its id, by the beginning of its run's, or the only one that waits.
base::Result<api::ApprovalView> find_approval(client::Client& client, const std::string& id,
                                              const std::string& kind) {
  api::ListApprovalsRequest request;
  request.set_ended_too(!id.empty());
  const auto known = client.list_approvals(request);
  if (!known) return std::unexpected(known.error());
  std::vector<api::ApprovalView> meant;
  for (const auto& approval : known->approvals()) {
    if (approval.approval_id() == id) return approval;
    const bool waits = approval.status() == "waiting" && approval.kind() == kind;
    if (waits && (id.empty() || may_name(id, approval.run_id()))) meant.push_back(approval);
  }
  if (meant.size() == 1) return meant.front();
  if (meant.empty()) {
    const std::string what = kind == "outcome" ? "effect of unknown outcome" : "approval";
    if (id.empty()) return base::fail(Code::not_found, "no " + what + " waits");
    if (id.starts_with("run-"))
      return base::fail(Code::not_found,
                        "no " + what + " of " + id + " waits, of those that this token may see");
    return base::fail(Code::not_found, "no approval " + id + " is known to this token");
  }
  return base::fail(Code::usage, std::to_string(meant.size()) +
                                     " approvals wait; name one of them (`sandglass approvals` lists them)");
}

bool person_agrees(const std::string& question) {
  // What was typed before the question was there is no answer to it.
  tcflush(STDIN_FILENO, TCIFLUSH);
  std::fputs(paint(Colour::bold, question + " [y/n] ").c_str(), stdout);
  std::fflush(stdout);
  std::array<char, 64> line{};
  return std::fgets(line.data(), line.size(), stdin) != nullptr && (line[0] == 'y' || line[0] == 'Y');
}

/// What the person means to say, in the words of each place where it is shown.
struct Word {
  std::string kind;      // of the inbox
  std::string question;  // on a terminal
  std::string said;      // afterwards
  Colour colour = Colour::green;
  std::string other_way;  // the command that says the opposite, or lists what can be said
};

/// Shows what waits, makes sure that the person means it, and sends it. `fill` adds what is said.
Outcome say(Session& session, const ApprovalArgs& args, const Word& word,
            const std::function<void(api::DecideRequest&)>& fill) {
  auto client = session.open("approver");
  if (!client) return std::unexpected(client.error());
  auto approval = find_approval(**client, args.id, word.kind);
  if (!approval) return std::unexpected(approval.error());
  std::string digest = approval->arguments_digest();
  if (!args.digest.empty()) {
    const auto given = engine::base::Hash256::from_hex(args.digest);
    if (!given) return base::fail(Code::usage, "--digest takes 64 hex digits");
    digest = std::string(given->view());
  }
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (!session.json()) std::fputs(approval_text(session, *approval).c_str(), stdout);
  const bool asks = !args.yes && !session.json() && args.digest.empty();
  if (asks && !terminal) {
    return base::fail(
        Code::usage,
        "nobody can be asked without a terminal, so nothing was decided; look at the above, then "
        "give --digest with its arguments digest, or --yes");
  }
  if (asks && !person_agrees(word.question)) {
    const std::string about = word.kind == "outcome" ? approval->run_id() : approval->approval_id();
    print_line("nothing was decided; it still waits. The other way: " +
               session.hint(word.other_way + " " + about));
    return base::Exit::ok;
  }
  api::DecideRequest request;
  request.set_request_id(args.request_id.empty() ? client::new_request_id() : args.request_id);
  request.set_approval_id(approval->approval_id());
  request.set_arguments_digest(digest);
  request.set_reason(args.reason);
  fill(request);
  const auto decided = (*client)->decide(request);
  if (!decided) return std::unexpected(decided.error());
  if (session.json()) {
    print_line(to_json({{"approval_id", approval->approval_id()},
                        {"run_id", approval->run_id()},
                        {"decision", word.said},
                        {"arguments_digest", engine::base::to_hex(digest)}}));
  } else {
    print_line(paint(word.colour, word.said));
  }
  return base::Exit::ok;
}

}  // namespace

Outcome decide(Session& session, const ApprovalArgs& args) {
  const Word yes{"approval", "Approve?", "approved", Colour::green, "deny"};
  const Word no{"approval", "Deny?", "denied", Colour::red, "approve"};
  return say(session, args, args.approve ? yes : no,
             [&](api::DecideRequest& request) { request.set_approve(args.approve); });
}

Outcome settle(Session& session, const ApprovalArgs& args) {
  static const std::map<std::string, api::OutcomeVerdict> kVerdicts = {
      {"done", api::OUTCOME_VERDICT_DONE},
      {"not-done", api::OUTCOME_VERDICT_NOT_DONE},
      {"again", api::OUTCOME_VERDICT_AGAIN}};
  const auto verdict = kVerdicts.find(args.outcome);
  if (verdict == kVerdicts.end()) {
    return base::fail(Code::usage,
                      "the outcome is done (it happened), not-done (it did not) or again (do it "
                      "once more, under a new key)");
  }
  const Word word{"outcome", "Say \"" + args.outcome + "\"?", args.outcome, Colour::green, "approvals"};
  return say(session, args, word, [&](api::DecideRequest& request) {
    request.set_outcome(verdict->second);
    request.set_result(args.result);
  });
}

Outcome list_approvals(Session& session, const ApprovalArgs& args) {
  auto client = session.open("approver");
  if (!client) return std::unexpected(client.error());
  api::ListApprovalsRequest request;
  if (!args.id.empty()) {
    const auto run = find_run(**client, args.id);
    if (!run) return std::unexpected(run.error());
    request.set_run_id(*run);
  }
  const auto waiting = (*client)->list_approvals(request);
  if (!waiting) return std::unexpected(waiting.error());
  if (session.json()) {
    print_line(to_json(*waiting));
    return base::Exit::ok;
  }
  for (const auto& approval : waiting->approvals())
    std::fputs(approval_text(session, approval).c_str(), stdout);
  if (waiting->approvals_size() == 0) print_line(paint(Colour::dim, "nothing waits for a person"));
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
