// query, update: what a run's workflow code answers.
#include <optional>
#include <string>

#include "engine/base/codes.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/interrupts.h"
#include "replay-tools/cli/one_run.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

/// JSON is shown as it is on one line; to a program, within the message.
template <class Message>
void show(const Session& session, const Message& message, const std::string& json) {
  print_line(session.json() ? to_json(message) : safe(json));
}

}  // namespace

Outcome query(Session& session, const AskArgs& args) {
  auto input = input_text(args.input, args.input_file);
  if (!input) return std::unexpected(input.error());
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::QueryRunRequest request;
  request.set_run_id(run->id);
  request.set_name(args.name);
  request.set_input(*input);
  const auto reply = run->client->query_run(request);
  if (!reply) return std::unexpected(reply.error());
  show(session, *reply, reply->answer());
  return base::Exit::ok;
}

Outcome update(Session& session, const AskArgs& args) {
  auto input = input_text(args.input, args.input_file);
  if (!input) return std::unexpected(input.error());
  Interrupts::block();
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::UpdateRunRequest request;
  request.set_request_id(args.request_id.empty() ? client::new_request_id() : args.request_id);
  request.set_run_id(run->id);
  request.set_name(args.name);
  request.set_input(*input);
  std::optional<api::UpdateProgress> last;
  client::Stop stop;
  const Interrupts interrupts([&stop](int) { stop.stop(); });
  const auto status = run->client->update_run(
      request,
      [&](const api::UpdateProgress& progress) {
        last = progress;
        return !progress.answered() && !args.accepted;
      },
      stop);
  if (!status && status.error().code == Code::cancelled && last) {
    return base::fail(Code::cancelled, "update " + std::to_string(last->number()) +
                                           " is accepted and goes on; its answer comes with --request-id " +
                                           request.request_id());
  }
  if (!status) return std::unexpected(status.error());
  if (!last) return base::fail(Code::internal, "the engine ended the update without a word");
  if (last->error_code() != 0) return base::fail(static_cast<Code>(last->error_code()), last->error());
  if (last->answered()) {
    show(session, *last, last->result().empty() ? "null" : last->result());
  } else if (session.json()) {
    print_line(to_json(*last));
  } else {
    print_line("update " + std::to_string(last->number()) +
               " is accepted; its answer comes with --request-id " + request.request_id());
  }
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
