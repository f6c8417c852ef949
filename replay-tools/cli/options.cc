#include "replay-tools/cli/options.h"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <string>

#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
using base::Exit;

constexpr const char* kExitCodes =
    "0 done · 1 fault of Sandglass · 2 usage · 3 configuration, task or input file · 4 no engine answers · 5 "
    "token or "
    "role · 6 not found · 7 refused · 8 data folder · 9 address in use · 10 machine · 20 run failed · 21 run "
    "cancelled · "
    "22 run stuck · 23 run failed by the platform · 24 approval denied · 130 detached. "
    "docs/guides/exit-codes.md";

constexpr const char* kShared =
    "Every command also takes --data, --as, --address and --json; see `sandglass --help`, which has the exit "
    "codes too.";

/// ADDRESS:PORT with an IPv4 address, or an IPv6 one in brackets: nobody resolves a name for it.
bool is_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = text.substr(0, colon);
  const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (v6) host = host.substr(1, host.size() - 2);
  std::array<unsigned char, 16> bytes{};
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  return inet_pton(v6 ? AF_INET6 : AF_INET, host.c_str(), bytes.data()) == 1 && read.ec == std::errc() &&
         read.ptr == end && port != 0;
}

/// All commands with their options. The chosen one is kept as a closure.
class CommandLine {
 public:
  explicit CommandLine(const HistoryAdapters& adapters)
      : adapters_(adapters), app_("Sandglass: durable, governed runs of agent work.", "sandglass") {
    app_.footer(std::string("Exit codes: ") + kExitCodes);
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_version_flag("--version", "sandglass 0.1.0");
    app_.add_option("--data", global_.data, "data folder (default: $SANDGLASS_DATA, else one by user)")
        ->check(
            [](const std::string& text) { return text.empty() ? "an empty text names no data folder" : ""; });
    app_.add_option("--as", global_.as, "name of the token to use (default: the usual one of the command)");
    app_.add_option("--address", global_.address,
                    "address of the engine, 127.0.0.1:PORT, instead of the data folder's socket")
        ->check([](const std::string& text) {
          return is_endpoint(text) ? "" : "\"" + text + "\" is no address and port; write 127.0.0.1:7233";
        });
    app_.add_flag("--json", global_.json, "output for programs: one JSON value a line");
    server_commands();
    run_commands();
    decision_commands();
    history_commands();
    folder_commands();
    schedule_commands();
    token_commands();
  }

  Exit run(int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    if (!words.empty() && words.front() == "help") {  // help token create: as token create --help
      words.erase(words.begin());
      const auto meant = [&](const CLI::App* each) { return each->check_name(words.front()); };
      if (words.empty() || !app_.get_subcommands(meant).empty()) words.emplace_back("--help");
    }
    std::ranges::reverse(words);  // as CLI11 takes them
    try {
      app_.parse(std::move(words));
    } catch (const CLI::Success& e) {
      app_.exit(e);  // help or version was printed
      return Exit::ok;
    } catch (const CLI::ParseError& e) {
      return report({Code::usage, usage_fault(e.what())}, global_.json);
    }
    Session session(global_);
    const auto outcome = chosen_(session);
    return outcome ? *outcome : report(outcome.error(), global_.json);
  }

 private:
  using Command = std::function<Outcome(Session&)>;

  /// What is wrong with the line, and which help tells how it is right.
  std::string usage_fault(std::string what) const {
    std::string path = "sandglass";
    for (const auto* at = &app_; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      path += " " + at->get_name();
    }
    if (what == "A subcommand is required") {
      const auto unknown = app_.remaining(true);
      what = unknown.empty() ? "no command is given" : "there is no command \"" + unknown.front() + "\"";
    }
    // CLI11's own words for a value of the wrong type.
    if (what.starts_with("Could not convert: ")) what = "this is not a whole number: " + what.substr(19);
    return what + "; see `" + path + " --help`";
  }

  CLI::App* command(CLI::App& parent, const char* name, const char* text, Command run) {
    auto* added = parent.add_subcommand(name, text);
    added->footer(kShared);
    added->callback([this, run = std::move(run)] { chosen_ = run; });
    return added;
  }

  void server_commands() {
    auto* serve_command = command(app_, "serve", "run the server in the foreground",
                                  [this](Session& session) { return serve(session, serve_); });
    serve_command->add_option("--config", serve_.config, "configuration file");
    serve_command->add_option("--set", serve_.settings, "key=value that wins over the configuration file")
        ->allow_extra_args(false);
    auto* doctor_command = command(app_, "doctor", "what works here, and what is missing",
                                   [this](Session& session) { return doctor(session, doctor_); });
    doctor_command->add_flag(
        "--clean", doctor_.clean,
        "start the server of the data folder, which sweeps what dead sandboxes have left");
    command(app_, "take-over", "tell the engine of this data folder, which stands by, to take over",
            [](Session& session) { return take_over(session); });
  }

  static CLI::Option* parameters(CLI::App& of, std::map<std::string, std::string>& into) {
    return of
        .add_option_function<std::vector<std::string>>(
            "--param",
            [&into](const std::vector<std::string>& given) {
              for (const auto& text : given) {
                const auto equals = text.find('=');
                if (equals == std::string::npos) throw CLI::ValidationError("--param", "write NAME=VALUE");
                into[text.substr(0, equals)] = text.substr(equals + 1);
              }
            },
            "NAME=VALUE for a parameter of the task; may be repeated")
        ->allow_extra_args(false);
  }

  void run_commands() {
    auto* run = command(app_, "run", "carry out a task file and follow it",
                        [this](Session& session) { return run_task(session, run_); });
    run->add_option("file", run_.file, "the task file")->required();
    parameters(*run, run_.parameters);
    run->add_option("--config", run_.config, "configuration file, where a server is started");
    run->add_option("--set", run_.settings, "key=value for the server, where one is started")
        ->allow_extra_args(false);
    run->add_option("--request-id", run_.request_id, "the same id again attaches to the same run");
    run->add_flag("--detach", run_.detach, "start it and do not follow");

    auto* begin = command(app_, "start", "start a run of a registered workflow",
                          [this](Session& session) { return start(session, start_); });
    begin->add_option("workflow", start_.workflow, "name of the workflow")->required();
    begin->add_option("--input", start_.input, "input as JSON");
    begin->add_option("--input-file", start_.input_file, "file with the input as JSON");
    begin->add_option("--run-id", start_.run_id, "id of the run (default: made from the request id)");
    begin->add_option("--session", start_.run_session, "session that the run belongs to");
    begin->add_option("--request-id", start_.request_id, "the same id again attaches to the same run");
    begin->add_flag("--wait", start_.wait, "follow it to its end");

    auto* listed = command(app_, "list", "list runs, newest first",
                           [this](Session& session) { return list(session, list_); });
    listed->add_option("--limit", list_.limit, "at most so many (default 50)");
    listed->add_option("--page", list_.page, "go on after an earlier page");
    listed->add_option("--status", list_.status,
                       "running, completed, failed, cancelled, terminated, stuck, continued");
    listed->add_option("--workflow", list_.workflow, "of this workflow only");
    listed->add_option("--user", list_.user, "of this user only");
    listed->add_option("--filter", list_.filter,
                       "such runs only: 'status = \"failed\" and started > \"2026-11-01\"' "
                       "(docs/guides/finding-runs.md)");
    listed->add_flag("--count", list_.count, "say how many runs the filter chooses");

    one_run("show", "status, steps, operations, sandboxes, approvals of a run", show);
    one_run("watch", "follow a run", watch)
        ->add_option("--from", run_id_.from, "records up to this one are known");
    one_run("cancel", "ask a run to stop and clean up", cancel)
        ->add_option("--reason", run_id_.reason, "why");
    one_run("terminate", "end a run at once, without its clean-up", terminate)
        ->add_option("--reason", run_id_.reason, "why");
    one_run("resume", "go on with a stuck run whose cause is repaired", resume);

    auto* signalled = command(app_, "signal", "send a signal to a run",
                              [this](Session& session) { return signal(session, signal_); });
    signalled->add_option("run", signal_.run_id, "id of the run, or its first digits")->required();
    signalled->add_option("name", signal_.name, "name of the signal")->required();
    signalled->add_option("--payload", signal_.payload, "JSON");
    signalled->add_option("--request-id", signal_.request_id, "the same id again changes nothing");

    auto* asked = ask_command("query", "ask a run's workflow about its state", query);
    asked->add_option("name", ask_.name, "name of the query")->required();
    auto* updated =
        ask_command("update", "let a run's workflow change something, and wait for its answer", update);
    updated->add_option("name", ask_.name, "name of the update")->required();
    updated->add_option("--request-id", ask_.request_id, "the same id again gets the same answer");
    updated->add_flag("--accepted", ask_.accepted, "wait only until it is accepted");
  }

  CLI::App* ask_command(const char* name, const char* text, Outcome (*function)(Session&, const AskArgs&)) {
    auto* added =
        command(app_, name, text, [this, function](Session& session) { return function(session, ask_); });
    added->add_option("run", ask_.run_id, "id of the run, or its first digits")->required();
    added->add_option("--input", ask_.input, "input as JSON");
    added->add_option("--input-file", ask_.input_file, "file with the input as JSON");
    return added;
  }

  CLI::App* one_run(const char* name, const char* text, Outcome (*function)(Session&, const RunIdArgs&)) {
    auto* added =
        command(app_, name, text, [this, function](Session& session) { return function(session, run_id_); });
    added->add_option("run", run_id_.run_id, "id of the run, or its first digits")->required();
    return added;
  }

  void decision_options(CLI::App& decided) {
    decided.add_option("--digest", approval_.digest, "digest of the arguments that you saw, 64 hex digits");
    decided.add_option("--reason", approval_.reason, "why");
    decided.add_option("--request-id", approval_.request_id, "the same id again changes nothing");
    decided.add_flag("--yes", approval_.yes, "do not ask on the terminal");
  }

  void decision_commands() {
    for (const bool approve : {true, false}) {
      auto* decided =
          command(app_, approve ? "approve" : "deny",
                  approve ? "say yes to what a run wants to do" : "say no to what a run wants to do",
                  [this, approve](Session& session) {
                    approval_.approve = approve;
                    return decide(session, approval_);
                  });
      decided->add_option("id", approval_.id, "approval or run (default: the only one that waits)");
      decision_options(*decided);
    }
    command(app_, "approvals", "list what waits for a person: approvals, and effects of unknown outcome",
            [this](Session& session) { return list_approvals(session, approval_); })
        ->add_option("run", approval_.id, "of this run only");
    auto* settled = command(app_, "settle", "say what became of an effect whose outcome is unknown",
                            [this](Session& session) { return settle(session, approval_); });
    settled->add_option("id", approval_.id, "its id in `sandglass approvals`, or its run")->required();
    settled->add_option("outcome", approval_.outcome, "done, not-done, or again: do it once more")
        ->required();
    settled->add_option("--result", approval_.result, "with done: what the workflow gets, JSON");
    decision_options(*settled);
  }

  void history_commands() {
    auto* artifact = app_.add_subcommand("artifact", "files that runs have handed over");
    artifact->footer(kShared);
    artifact->require_subcommand(1);
    auto* listed = command(*artifact, "list", "artifacts of a run",
                           [this](Session& session) { return artifact_list(session, artifact_); });
    listed->add_option("run", artifact_.run_id, "id of the run, or its first digits")->required();
    auto* got = command(*artifact, "get", "write an artifact to a file or to standard output",
                        [this](Session& session) { return artifact_get(session, artifact_); });
    got->add_option("run", artifact_.run_id, "id of the run, or its first digits")->required();
    got->add_option("name", artifact_.name, "name of the artifact")->required();
    got->add_option("-o,--output", artifact_.output, "file (default: standard output)");

    auto* debugged = command(app_, "debug", "step forwards and backwards over a history",
                             [this](Session& session) { return debug(session, adapters_, debug_); });
    auto* debugged_run = debugged->add_option("run", debug_.run_id, "id of the run, or of another stream");
    auto* debugged_file =
        debugged->add_option("--file", debug_.file, "an exported history, instead of a run's");
    debugged_run->excludes(debugged_file);
    debugged->add_option("--at", debug_.at, "begin after this record");
    debugged->add_flag("--all", debug_.all, "print every record and end");

    auto* history = app_.add_subcommand("history", "histories as files");
    history->footer(kShared);
    history->require_subcommand(1);
    auto* exported =
        command(*history, "export", "write a run's history into a file, for `debug --file`",
                [this](Session& session) { return history_export(session, adapters_, export_); });
    exported->add_option("run", export_.run_id, "id of the run, or of another stream")->required();
    exported->add_option("file", export_.file, "the file (default: ID.history, here)");

    auto* audit = app_.add_subcommand("audit", "verify and read the record chain");
    audit->footer(kShared);
    audit->require_subcommand(1);
    auto* verified = command(*audit, "verify", "recompute every hash and both chains",
                             [this](Session& session) { return audit_verify(session, adapters_, audit_); });
    verified->add_option("stream", audit_.stream, "one run or other stream alone");
    verified->add_option("--file", audit_.file, "an exported history alone");
    TopicPlace& topic = audit_.topic;
    auto* brokers =
        verified->add_option("--kafka", topic.brokers, "brokers (host:port,…): verify the topic there alone");
    verified->add_option("--topic", topic.topic, "its name (default: history)")->needs(brokers);
    verified->add_option("--journal", topic.journal, "id of the journal that it must be")->needs(brokers);
    verified
        ->add_option("--kafka-set", topic.settings,
                     "a setting of the client, ssl.ca.location=FILE; may be repeated")
        ->allow_extra_args(false)
        ->needs(brokers);
    verified->add_option("--kafka-file", topic.settings_file, "a file of such settings, a line each")
        ->needs(brokers);
    command(*audit, "refusals", "who was refused what, and why",
            [this](Session& session) { return audit_refusals(session, adapters_, audit_); });
    command(*audit, "log", "every record, in order", [this](Session& session) {
      return audit_log(session, adapters_, audit_);
    })->add_option("stream", audit_.stream, "one run or other stream alone");
  }

  void folder_commands() {
    command(app_, "rebuild",
            "make what is derived from records anew, when a table file is damaged (server stopped)",
            [this](Session& session) { return rebuild(session, adapters_); });

    auto* backup = app_.add_subcommand("backup", "copies of the data folder");
    backup->footer(kShared);
    backup->require_subcommand(1);
    command(*backup, "create", "copy the data folder into a new folder, while its server runs or not",
            [this](Session& session) { return backup_create(session, adapters_, backup_); })
        ->add_option("folder", backup_.folder, "the backup's folder")
        ->required();
    command(*backup, "verify", "compare a backup with its hashes, and recompute its journal's",
            [this](Session& session) { return backup_verify(session, adapters_, backup_); })
        ->add_option("folder", backup_.folder, "the backup's folder")
        ->required();
    auto* restored =
        command(*backup, "restore", "make the data folder, which must not exist, of a backup",
                [this](Session& session) { return backup_restore(session, adapters_, backup_); });
    restored->add_option("folder", backup_.folder, "the backup's folder")->required();
    restored->add_flag("--beside-original", backup_.beside_original,
                       "although the folder that it was made of is still there");

    auto* moved = command(app_, "migrate",
                          "move the journal to where the configuration says that it is (server stopped)",
                          [this](Session& session) { return migrate(session, adapters_, migrate_); });
    moved->add_option("--config", migrate_.config, "configuration file, as the server gets it");
    moved->add_option("--set", migrate_.settings, "key=value that wins over the configuration file")
        ->allow_extra_args(false);
    auto* go_on = moved->add_flag("--continue", migrate_.go_on, "go on with a move that was begun");
    moved->add_flag("--back", migrate_.back, "give up a move that was begun: the journal stays")
        ->excludes(go_on);
  }

  CLI::App* one_schedule(CLI::App& parent, const char* name, const char* text,
                         Outcome (*function)(Session&, const ScheduleArgs&)) {
    auto* added = command(parent, name, text,
                          [this, function](Session& session) { return function(session, schedule_); });
    added->add_option("name", schedule_.name, "name of the schedule")->required();
    return added;
  }
  void schedule_definition(CLI::App& defined) {
    ScheduleArgs& args = schedule_;
    defined.add_option("--cron", args.crons, "\"MINUTE HOUR DAY MONTH WEEKDAY\" or @daily; may be repeated")
        ->allow_extra_args(false);
    defined
        .add_option("--every", args.every, "an interval, as 15m, or 1h+5m with an offset; may be repeated")
        ->allow_extra_args(false);
    defined.add_option("--zone", args.zone, "time zone of --cron, as Europe/Berlin (default: UTC)");
    auto* task = defined.add_option("--task", args.task, "the task file that each run carries out");
    parameters(defined, args.parameters)->needs(task);
    defined.add_option("--workflow", args.workflow, "or the workflow of each run")->excludes(task);
    defined.add_option("--input", args.input, "with --workflow: its input as JSON")->excludes(task);
    defined.add_option("--input-file", args.input_file, "or a file with it")->excludes(task);
    defined.add_option("--user", args.user, "service identity of the runs (default: cron:NAME)");
    defined.add_flag("--one-session", args.one_session, "all runs in one session, never two at a time");
    defined.add_option(
        "--overlap", args.overlap,
        "while a run is open: skip (default), buffer-one, buffer-all, cancel-other, terminate-other, "
        "allow-all");
    defined.add_option("--buffer", args.buffer, "with buffer-all: so many may wait (default 10)");
    defined.add_option("--catch-up", args.catch_up,
                       "how late a run may begin, as 1h (the default); 0s: not at all");
    defined.add_option("--catch-up-most", args.catch_up_most, "at most so many missed runs (default 100)");
    defined.add_option("--jitter", args.jitter, "delay each by up to this, as 30s");
    defined.add_option("--delay", args.delay, "nothing before this has passed, as 1h");
    defined.add_option("--start", args.start, "nothing before this moment, as 2026-03-29T01:30:00Z");
    defined.add_option("--end", args.end, "nothing from this moment on");
    defined.add_option("--runs", args.runs, "so many fires in all (default: no limit)");
  }

  void schedule_commands() {
    auto* parent = app_.add_subcommand("schedule", "runs that begin by themselves");
    parent->footer(kShared);
    parent->require_subcommand(1);
    schedule_definition(*one_schedule(*parent, "create", "make a schedule", schedule_create));
    auto* updated =
        one_schedule(*parent, "update", "replace a schedule's definition as a whole", schedule_update);
    schedule_definition(*updated);
    updated->add_flag("--keep-input", schedule_.keep_input, "but for the input of its runs");
    auto* listed = command(*parent, "list", "list schedules",
                           [this](Session& session) { return schedule_list(session, schedule_); });
    listed->add_option("--limit", schedule_.limit, "at most so many (default 50)");
    listed->add_option("--page", schedule_.page, "go on after an earlier page");
    one_schedule(*parent, "show", "next fires, open runs, what happened lately", schedule_show);
    one_schedule(*parent, "pause", "fire no more for now; what is missed is skipped", schedule_pause);
    one_schedule(*parent, "resume", "fire again", schedule_resume);
    one_schedule(*parent, "trigger", "begin a run now", schedule_trigger);
    auto* filled =
        one_schedule(*parent, "backfill", "begin the runs of moments that have been", schedule_backfill);
    filled->add_option("--from", schedule_.from, "the first moment, as 2026-03-29T01:30:00Z")->required();
    filled->add_option("--to", schedule_.to, "the last moment")->required();
    one_schedule(*parent, "delete", "end a schedule; its open runs go on", schedule_delete);
    for (auto* each : parent->get_subcommands({})) {
      if (each->get_name() == "list" || each->get_name() == "show") continue;
      each->add_option("--request-id", schedule_.request_id, "the same id again changes nothing");
    }
  }

  void token_commands() {
    auto* token = app_.add_subcommand("token", "bearer tokens");
    token->footer(kShared);
    token->require_subcommand(1);
    auto* created = command(*token, "create", "make a token and print it once",
                            [this](Session& session) { return token_create(session, token_); });
    created->add_option("name", token_.name, "its name")->required();
    created
        ->add_option("--role", token_.roles,
                     "admin, operator, approver, auditor, user, worker; may be repeated")
        ->required()
        ->allow_extra_args(false);
    created->add_option("--tenant", token_.tenant, "tenant (default: yours)");
    created->add_option("--user", token_.user, "user whom it stands for (default: its name)");
    command(*token, "revoke", "end a token for good",
            [this](Session& session) { return token_revoke(session, token_); })
        ->add_option("name", token_.name, "its name")
        ->required();
    command(*token, "list", "list tokens", [this](Session& session) { return token_list(session, token_); });
  }

  const HistoryAdapters& adapters_;
  CLI::App app_;
  Global global_;
  Command chosen_;
  ServeArgs serve_;
  DoctorArgs doctor_;
  RunArgs run_;
  StartArgs start_;
  ListArgs list_;
  RunIdArgs run_id_;
  SignalArgs signal_;
  AskArgs ask_;
  ApprovalArgs approval_;
  ArtifactArgs artifact_;
  DebugArgs debug_;
  ExportArgs export_;
  BackupArgs backup_;
  AuditArgs audit_;
  MigrateArgs migrate_;
  ScheduleArgs schedule_;
  TokenArgs token_;
};

}  // namespace

engine::base::Exit run_command_line(int argc, char** argv, const HistoryAdapters& adapters) {
  return CommandLine(adapters).run(argc, argv);
}

}  // namespace sandglass::replay_tools::cli
