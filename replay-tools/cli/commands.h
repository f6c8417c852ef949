// The commands of `sandglass`. Each gets what its options gave and returns the exit code, or an error to
// report.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replay-tools/cli/session.h"

namespace sandglass::replay_tools::cli {

struct RunArgs {
  std::string file;
  std::map<std::string, std::string> parameters;
  std::string config;
  std::vector<std::string> settings;
  std::string request_id;
  bool detach = false;  // start it and do not follow
};
Outcome run_task(Session& session, const RunArgs& args);

struct StartArgs {
  std::string workflow;
  std::string input;       // JSON text
  std::string input_file;  // or a file with it
  std::string request_id;
  std::string run_id;
  std::string run_session;
  bool wait = false;
};
Outcome start(Session& session, const StartArgs& args);

struct ListArgs {
  std::uint32_t limit = 50;
  std::string page;
  std::vector<std::string> status;
  std::string workflow;
  std::string user;
  std::string filter;
  bool count = false;  // say how many there are instead
};
Outcome list(Session& session, const ListArgs& args);

struct RunIdArgs {
  std::string run_id;
  std::string reason;
  std::string request_id;
  std::uint64_t from = 0;
};
Outcome show(Session& session, const RunIdArgs& args);
Outcome watch(Session& session, const RunIdArgs& args);
Outcome cancel(Session& session, const RunIdArgs& args);
Outcome terminate(Session& session, const RunIdArgs& args);
Outcome resume(Session& session, const RunIdArgs& args);

struct SignalArgs {
  std::string run_id;
  std::string name;
  std::string payload;
  std::string request_id;
};
Outcome signal(Session& session, const SignalArgs& args);

struct AskArgs {
  std::string run_id;
  std::string name;
  std::string input;       // JSON text
  std::string input_file;  // or a file with it
  std::string request_id;  // of an update
  bool accepted = false;   // do not wait for an update's answer
};
Outcome query(Session& session, const AskArgs& args);
Outcome update(Session& session, const AskArgs& args);

struct ApprovalArgs {
  std::string id;      // of an approval or of its run; empty: the only one that waits
  std::string digest;  // hex; empty: that of what is shown now
  std::string reason;
  std::string request_id;
  bool approve = true;
  bool yes = false;     // do not ask on a terminal
  std::string outcome;  // settle: done, not-done, again
  std::string result;   // settle, done: JSON
};
Outcome decide(Session& session, const ApprovalArgs& args);
/// Says what became of an effect of unknown outcome.
Outcome settle(Session& session, const ApprovalArgs& args);
Outcome list_approvals(Session& session, const ApprovalArgs& args);

struct ArtifactArgs {
  std::string run_id;
  std::string name;
  std::string output;  // file; empty or "-": standard output
};
Outcome artifact_list(Session& session, const ArtifactArgs& args);
Outcome artifact_get(Session& session, const ArtifactArgs& args);

struct TokenArgs {
  std::string name;
  std::string tenant;
  std::string user;
  std::vector<std::string> roles;
};
Outcome token_create(Session& session, const TokenArgs& args);
Outcome token_revoke(Session& session, const TokenArgs& args);
Outcome token_list(Session& session, const TokenArgs& args);

struct ScheduleArgs {
  std::string name;
  std::string request_id;
  // create, update
  std::string workflow;
  std::string input;
  std::string input_file;
  std::string task;  // a task file, of workflow "agent"
  std::map<std::string, std::string> parameters;
  bool keep_input = false;
  std::string user;
  std::vector<std::string> crons;
  std::vector<std::string> every;  // DURATION or DURATION+OFFSET
  std::string zone;
  std::string start, end;  // moments
  std::string delay;       // durations, as the next two
  std::string jitter;
  std::string catch_up;
  std::uint32_t catch_up_most = 0;
  std::string overlap;
  std::uint32_t buffer = 0;
  std::uint64_t runs = 0;
  bool one_session = false;
  // backfill
  std::string from, to;
  // list
  std::uint32_t limit = 50;
  std::string page;
};
Outcome schedule_create(Session& session, const ScheduleArgs& args);
/// Replaces the whole definition.
Outcome schedule_update(Session& session, const ScheduleArgs& args);
Outcome schedule_list(Session& session, const ScheduleArgs& args);
Outcome schedule_show(Session& session, const ScheduleArgs& args);
Outcome schedule_pause(Session& session, const ScheduleArgs& args);
Outcome schedule_resume(Session& session, const ScheduleArgs& args);
Outcome schedule_trigger(Session& session, const ScheduleArgs& args);
Outcome schedule_backfill(Session& session, const ScheduleArgs& args);
Outcome schedule_delete(Session& session, const ScheduleArgs& args);

struct ServeArgs {
  std::string config;
  std::vector<std::string> settings;
};
Outcome serve(Session& session, const ServeArgs& args);
/// `clean`: the host of the data folder is started if it is not at work; it removes control groups, images
/// and sockets that carry the folder's prefix and belong to no living sandbox.
struct DoctorArgs {
  bool clean = false;
};
Outcome doctor(Session& session, const DoctorArgs& args);
/// The engine of this data folder, which stands by, takes over from the one that serves; waits until it has.
Outcome take_over(Session& session);

/// The JSON text of --input or --input-file.
base::Result<std::string> input_text(const std::string& text, const std::string& file);

}  // namespace sandglass::replay_tools::cli
