// run: a task file, from the caller's files to the end of the run. The only command that starts a server.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "activities/agent/taskfile/taskfile.h"
#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/follow.h"
#include "replay-tools/cli/interrupts.h"
#include "replay-tools/cli/launch.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

namespace taskfile = activities::agent::taskfile;
using base::Code;

constexpr std::size_t kMaxTaskBytes = 1 << 20;

std::string beside(const std::string& file, const std::string& path) {
  if (path.starts_with('/')) return path;
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

base::Error about_input(const std::string& file, const std::string& path, const base::Error& error) {
  return {error.code, file + ": input \"" + path + "\": " + error.message};
}

/// What can be seen of the inputs before a server is started for them.
base::Status inputs_are_there(const std::string& file, const taskfile::Task& task) {
  for (const auto& input : task.inputs) {
    const std::string path = beside(file, input.path);
    if (access(path.c_str(), R_OK) == 0) continue;
    const base::Error error{Code::file_unreadable, "cannot read " + path + ": " + std::strerror(errno)};
    return std::unexpected(about_input(file, input.path, error));
  }
  return {};
}

}  // namespace

Outcome run_task(Session& session, const RunArgs& args) {
  Interrupts::block();
  auto text = base::read_whole_file(args.file, kMaxTaskBytes);
  if (!text) return std::unexpected(text.error());
  auto task = taskfile::parse_task_yaml(*text, args.file, args.parameters);
  if (!task) return std::unexpected(task.error());
  if (auto there = inputs_are_there(args.file, task->task); !there) return std::unexpected(there.error());
  if (auto ready = session.ensure_engine(args.config, args.settings); !ready)
    return std::unexpected(ready.error());
  auto client = session.connect("operator", 30'000);
  if (!client) return std::unexpected(client.error());
  std::vector<std::string> trees;
  for (const auto& input : task->task.inputs) {
    const std::string folder = beside(args.file, input.path);
    const auto uploaded = (*client)->upload_tree(folder);
    if (!uploaded) return std::unexpected(about_input(args.file, input.path, uploaded.error()));
    if (!session.json()) {
      print_line("uploaded " + safe(input.path) + ": " + std::to_string(uploaded->files()) + " files, " +
                 show_bytes(uploaded->bytes()));
    }
    trees.push_back(engine::base::to_hex(uploaded->digest()));
  }
  auto input = taskfile::make_run_input(*task, trees, args.parameters);
  if (!input) return std::unexpected(input.error());
  api::StartRunRequest request;
  request.set_request_id(args.request_id.empty() ? client::new_request_id() : args.request_id);
  request.set_workflow("agent");
  request.set_input(*input);
  request.set_session(task->task.session);
  const auto started = (*client)->start_run(request);
  if (!started) return std::unexpected(started.error());
  if (session.json()) {
    print_line(to_json(*started));
  } else {
    print_line("started " + paint(Colour::bold, safe(started->run_id())) + "  " + safe(task->task.name));
  }
  if (args.detach) return base::Exit::ok;
  const auto outcome = follow(
      session, **client, {.run_id = started->run_id(), .cancel_on_interrupt = true, .ask_approvals = true});
  if (outcome && *outcome != base::Exit::detached && !session.json()) {
    api::ListArtifactsRequest made;
    made.set_run_id(started->run_id());
    if (const auto kept = (*client)->list_artifacts(made); kept && kept->artifacts_size() != 0)
      print_line("artifacts: " + session.hint("artifact list " + started->run_id()));
    print_line("steps:     " + session.hint("show " + started->run_id()));
    print_line("history:   " + session.hint("debug " + started->run_id()));
  }
  return outcome;
}

}  // namespace sandglass::replay_tools::cli
