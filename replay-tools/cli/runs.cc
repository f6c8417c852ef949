// start, list, watch, signal, cancel, terminate, resume.
#include <nlohmann/json.hpp>

#include "engine/base/data_folder.h"
#include "engine/base/system_ports.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/follow.h"
#include "replay-tools/cli/interrupts.h"
#include "replay-tools/cli/one_run.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

constexpr std::size_t kMaxInputBytes = 1 << 20;

std::string id_or_new(const std::string& given) {
  return given.empty() ? client::new_request_id() : given;
}

std::string short_status(api::RunStatus status) {
  switch (status) {
    case api::RUN_STATUS_RUNNING:
      return "running";
    case api::RUN_STATUS_COMPLETED:
      return "completed";
    case api::RUN_STATUS_FAILED:
      return "failed";
    case api::RUN_STATUS_CANCELLED:
      return "cancelled";
    case api::RUN_STATUS_TERMINATED:
      return "terminated";
    case api::RUN_STATUS_STUCK:
      return "stuck";
    case api::RUN_STATUS_CONTINUED:
      return "continued";
    default:
      return "unknown";
  }
}

base::Result<api::RunStatus> parse_status(const std::string& text) {
  for (int i = api::RunStatus_MIN; i <= api::RunStatus_MAX; ++i) {
    const auto status = static_cast<api::RunStatus>(i);
    if (status != api::RUN_STATUS_UNSPECIFIED && short_status(status) == text) return status;
  }
  return base::fail(Code::usage,
                    "there is no status " + text +
                        "; there are running, completed, failed, cancelled, terminated, stuck, continued");
}

/// The options of a list again, for its next page.
std::string words_of(const ListArgs& args) {
  std::string words;
  if (args.limit != ListArgs().limit) words += "--limit " + std::to_string(args.limit) + " ";
  for (const auto& status : args.status) words += "--status " + status + " ";
  if (!args.workflow.empty()) words += "--workflow " + shell_word(args.workflow) + " ";
  if (!args.user.empty()) words += "--user " + shell_word(args.user) + " ";
  if (!args.filter.empty()) words += "--filter " + shell_word(args.filter) + " ";
  return words;
}

Outcome changed(const Session& session, const base::Result<api::CommandReply>& reply,
                const std::string& run_id, const char* what) {
  if (!reply) return std::unexpected(reply.error());
  if (session.json()) {
    print_line(to_json({{"run_id", run_id}, {"result", what}}));
  } else {
    print_line(safe(run_id) + " " + what);
  }
  return base::Exit::ok;
}

}  // namespace

base::Result<std::string> input_text(const std::string& text, const std::string& file) {
  if (!text.empty() && !file.empty())
    return base::fail(Code::usage, "give --input or --input-file, not both");
  if (file.empty()) return text;
  return base::read_whole_file(file, kMaxInputBytes);
}

Outcome start(Session& session, const StartArgs& args) {
  if (args.wait) Interrupts::block();
  auto input = input_text(args.input, args.input_file);
  if (!input) return std::unexpected(input.error());
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::StartRunRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_run_id(args.run_id);
  request.set_workflow(args.workflow);
  request.set_input(*input);
  request.set_session(args.run_session);
  const auto started = (*client)->start_run(request);
  if (!started) return std::unexpected(started.error());
  if (session.json()) {
    print_line(to_json(*started));
  } else {
    print_line("started " + paint(Colour::bold, safe(started->run_id())));
    if (!args.wait) print_line("watch it with: " + session.hint("watch " + started->run_id()));
  }
  if (!args.wait) return base::Exit::ok;
  return follow(session, **client, {.run_id = started->run_id()});
}

namespace {

Outcome count(Session& session, const ListArgs& args) {
  if (!args.workflow.empty() || !args.user.empty() || !args.status.empty() || !args.page.empty())
    return base::fail(Code::usage, "--count takes --filter alone; write the rest into the filter");
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::CountRunsRequest request;
  request.set_filter(args.filter);
  const auto runs = (*client)->count_runs(request);
  if (!runs) return std::unexpected(runs.error());
  print_line(session.json() ? "{\"runs\": " + std::to_string(*runs) + "}" : std::to_string(*runs));
  return base::Exit::ok;
}

}  // namespace

Outcome list(Session& session, const ListArgs& args) {
  if (args.count) return count(session, args);
  api::ListRunsRequest request;
  request.set_page_size(args.limit);
  request.set_page_token(args.page);
  request.set_workflow(args.workflow);
  request.set_user(args.user);
  request.set_filter(args.filter);
  for (const auto& text : args.status) {
    const auto status = parse_status(text);
    if (!status) return std::unexpected(status.error());
    request.add_status(*status);
  }
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  const auto runs = (*client)->list_runs(request);
  if (!runs) return std::unexpected(runs.error());
  if (session.json()) {
    print_line(to_json(*runs));
    return base::Exit::ok;
  }
  const std::int64_t now = base::SystemClock().wall_ms();
  std::vector<std::vector<std::string>> rows = {
      {"RUN", "WORKFLOW", "STATUS", "PHASE", "USER", "STARTED", "TIME"}};
  for (const auto& run : runs->runs()) {
    const bool open = run.closed_ms() == 0;
    const bool damaged = run.error_code() == static_cast<std::uint32_t>(Code::stream_damaged);
    // A workflow knows nothing of an outcome that only a person can find out.
    const std::string phase = run.questions() == 0 ? run.phase() : "Waiting for `settle`";
    rows.push_back({run.run_id(), run.workflow(), short_status(run.status()) + (damaged ? " (damaged)" : ""),
                    open ? phase : "", run.user(), show_time(run.started_ms()),
                    show_duration((open ? now : run.closed_ms()) - run.started_ms())});
  }
  print_table(rows);
  if (runs->runs_size() == 0) print_line(paint(Colour::dim, "no runs"));
  if (!runs->next_page_token().empty())
    print_line("more with: " + session.hint("list " + words_of(args) + "--page " + runs->next_page_token()));
  return base::Exit::ok;
}

Outcome watch(Session& session, const RunIdArgs& args) {
  Interrupts::block();
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  return follow(session, *run->client, {.run_id = run->id, .after_seq = args.from, .ask_approvals = true});
}

Outcome signal(Session& session, const SignalArgs& args) {
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::SignalRunRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_run_id(run->id);
  request.set_name(args.name);
  request.set_payload(args.payload);
  return changed(session, run->client->signal_run(request), run->id, "signalled");
}

Outcome cancel(Session& session, const RunIdArgs& args) {
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::CancelRunRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_run_id(run->id);
  request.set_reason(args.reason);
  return changed(session, run->client->cancel_run(request), run->id, "asked to cancel");
}

Outcome terminate(Session& session, const RunIdArgs& args) {
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::TerminateRunRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_run_id(run->id);
  request.set_reason(args.reason);
  return changed(session, run->client->terminate_run(request), run->id, "terminated");
}

Outcome resume(Session& session, const RunIdArgs& args) {
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::ResumeRunRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_run_id(run->id);
  return changed(session, run->client->resume_run(request), run->id, "resumed");
}

}  // namespace sandglass::replay_tools::cli
