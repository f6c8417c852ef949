// run: a task file, from the caller's files to the end of the run. The only command that starts a server.
#include <utility>

#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/follow.h"
#include "replay-tools/cli/interrupts.h"
#include "replay-tools/cli/launch.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/task_input.h"

namespace sandglass::replay_tools::cli {

Outcome run_task(Session& session, const RunArgs& args) {
  Interrupts::block();
  auto task = read_task(args.file, args.parameters);
  if (!task) return std::unexpected(task.error());
  if (auto ready = session.ensure_engine(args.config, args.settings); !ready)
    return std::unexpected(ready.error());
  auto client = session.connect("operator", 30'000);
  if (!client) return std::unexpected(client.error());
  auto input = make_input(session, **client, args.file, *task, args.parameters);
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
