// show: one run in full.
#include <nlohmann/json.hpp>

#include "replay-tools/cli/approval_text.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/one_run.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

constexpr std::size_t kLongestInput = 400;
constexpr std::size_t kLongestResult = 2000;

std::string code_text(std::uint32_t code, const std::string& message) {
  if (code == 0) return {};
  std::string text = std::to_string(code) + " " + std::string(base::name_of(static_cast<base::Code>(code)));
  if (!message.empty()) text += ": " + message;
  return text;
}

void print_field(std::string_view name, const std::string& shown) {
  if (shown.empty()) return;
  std::string label(name);
  label.resize(std::max<std::size_t>(label.size() + 1, 12), ' ');
  print_line(paint(Colour::dim, label) + shown);
}

std::string json_block(const std::string& bytes, std::size_t longest) {
  const auto parsed = nlohmann::ordered_json::parse(bytes, nullptr, false);
  std::string text = parsed.is_discarded()
                         ? bytes
                         : parsed.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, text.rfind('\n', longest)) + "\n… (whole with --json)";
  return safe_block(text, std::string(12, ' '));
}

void print_head(const Session& session, const api::RunDetail& run) {
  const auto& summary = run.summary();
  print_line(paint(Colour::bold, safe(summary.run_id())));
  print_field("workflow", safe(summary.workflow()));
  print_field("for", safe(summary.tenant() + "/" + summary.user()) +
                         (summary.session().empty() ? "" : " session " + safe(summary.session())));
  std::string status = api::RunStatus_Name(summary.status());
  status.erase(0, std::string_view("RUN_STATUS_").size());
  for (char& c : status) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (summary.error_code() == static_cast<std::uint32_t>(base::Code::stream_damaged)) status += " (damaged)";
  if (summary.cancel_asked() && summary.closed_ms() == 0) status += ", cancelling";
  print_field("status", status);
  if (summary.closed_ms() == 0) print_field("phase", safe(summary.phase()));
  if (summary.closed_ms() == 0 && summary.questions() != 0) {
    print_field("waits", "for somebody to say what became of " + std::to_string(summary.questions()) +
                             (summary.questions() == 1 ? " effect" : " effects") +
                             " of unknown outcome, below");
  }
  print_field("started", show_time(summary.started_ms()));
  if (summary.closed_ms() != 0) {
    print_field("ended", show_time(summary.closed_ms()) + " after " +
                             show_duration(summary.closed_ms() - summary.started_ms()));
  }
  print_field("parent", safe(run.parent()));
  print_field("continues", safe(run.continues()));
  print_field("goes on as", safe(run.continued_as()));
  print_field("records", std::to_string(summary.head()));
  print_field("error", safe_block(code_text(run.error_code(), run.error()), std::string(12, ' ')));
  if (!run.has_stuck() && summary.error_code() == static_cast<std::uint32_t>(base::Code::stream_damaged)) {
    print_line("its records are damaged on disk; which ones, says: " + session.hint("audit verify"));
  }
  if (run.has_stuck()) {
    print_field("expected", safe(run.stuck().expected()));
    print_field("actual", safe(run.stuck().actual()));
    print_field("at", (run.stuck().path().empty() ? "" : safe(run.stuck().path()) + ", ") + "record " +
                          std::to_string(run.stuck().event_seq()));
    print_line("repair the cause, then: " + session.hint("resume " + summary.run_id()));
  }
  if (!run.input().empty()) print_field("input", json_block(run.input(), kLongestInput));
  if (!run.result().empty()) print_field("result", json_block(run.result(), kLongestResult));
}

void print_steps(const api::RunDetail& run) {
  if (run.steps_size() == 0) return;
  print_line(paint(Colour::bold, "Steps"));
  std::vector<std::vector<std::string>> rows = {{"PATH", "ACTIVITY", "STATUS", "ATTEMPT", "TIME", "ERROR"}};
  for (const auto& step : run.steps()) {
    const bool ended = step.ended_ms() != 0 && step.scheduled_ms() != 0;
    rows.push_back({step.path(), step.name(), step.status(), std::to_string(step.attempt()),
                    ended ? show_duration(step.ended_ms() - step.scheduled_ms()) : "",
                    code_text(step.error_code(), step.error())});
  }
  print_table(rows);
}

void print_operations(const api::RunDetail& run) {
  if (run.operations_size() == 0) return;
  print_line(paint(Colour::bold, "Operations"));
  std::vector<std::vector<std::string>> rows = {
      {"PATH", "TOOL", "TARGET", "STATUS", "ATTEMPT", "RECOVERY", "KEY", "ERROR"}};
  for (const auto& operation : run.operations()) {
    rows.push_back({operation.path(), operation.tool(), operation.target(), operation.status(),
                    std::to_string(operation.attempt()), operation.recovery(), operation.key().substr(0, 16),
                    code_text(operation.error_code(), operation.error())});
  }
  print_table(rows);
}

void print_children(const api::RunDetail& run) {
  if (run.children_size() == 0) return;
  print_line(paint(Colour::bold, "Child runs"));
  std::vector<std::vector<std::string>> rows = {{"PATH", "RUN", "WORKFLOW", "STATUS", "TIME", "ERROR"}};
  for (const auto& child : run.children()) {
    const bool ended = child.ended_ms() != 0 && child.started_ms() != 0;
    rows.push_back({child.path(), child.run_id(), child.workflow(), child.status(),
                    ended ? show_duration(child.ended_ms() - child.started_ms()) : "",
                    code_text(child.error_code(), child.error())});
  }
  print_table(rows);
}

void print_waiting(const Session& session, const api::RunDetail& run) {
  if (run.leases_size() != 0) print_line(paint(Colour::bold, "Sandboxes"));
  for (const auto& lease : run.leases()) {
    std::string line = "  " + safe(lease.path()) + " " + safe(lease.status());
    if (!lease.sandbox().empty()) line += ": " + safe(lease.sandbox()) + " by " + safe(lease.provider());
    if (lease.queue_position() != 0) line += ", position " + std::to_string(lease.queue_position());
    if (!lease.unenforced().empty())
      line += paint(Colour::yellow, ", not enforced here: " + safe(lease.unenforced()));
    print_line(line);
  }
  if (run.timers_size() != 0) print_line(paint(Colour::bold, "Timers"));
  for (const auto& timer : run.timers())
    print_line("  " + safe(timer.path()) + " due " + show_time(timer.due_ms()));
  if (run.unread_signals_size() != 0) print_line(paint(Colour::bold, "Unread signals"));
  for (const auto& name : run.unread_signals()) print_line("  " + safe(name));
  for (const auto& approval : run.approvals()) std::fputs(approval_text(session, approval).c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Outcome show(Session& session, const RunIdArgs& args) {
  const auto meant = open_run(session, args.run_id);
  if (!meant) return std::unexpected(meant.error());
  api::GetRunRequest request;
  request.set_run_id(meant->id);
  const auto run = meant->client->get_run(request);
  if (!run) return std::unexpected(run.error());
  if (session.json()) {
    print_line(to_json(*run));
    return base::Exit::ok;
  }
  print_head(session, *run);
  if (run->shown_from() > 1) {
    print_line(
        paint(Colour::dim, "steps and operations from record " + std::to_string(run->shown_from()) + " on"));
  }
  print_steps(*run);
  print_operations(*run);
  print_children(*run);
  print_waiting(session, *run);
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
