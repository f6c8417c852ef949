// migrate: a stopped server's journal to a Kafka topic, and back.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/stopped_folder.h"

namespace sandglass::replay_tools::cli {
namespace {

/// Where it is: a line of JSON each time, or one line that is written over on a terminal, or a line a stage.
class Progress {
 public:
  explicit Progress(bool json) : json_(json), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { end_line(); }

  void tell(const std::string& stage, std::uint64_t done, std::uint64_t of) {
    const std::string count =
        of == 0 ? "" : " " + std::to_string(done) + " of " + std::to_string(of) + " records";
    if (json_) {
      print_line(to_json({{"stage", stage}, {"done", std::to_string(done)}, {"of", std::to_string(of)}}));
    } else if (terminal_) {
      if (stage != stage_) end_line();
      std::fprintf(stderr, "\r%s%s", stage.c_str(), count.c_str());
      std::fflush(stderr);
      open_ = true;
    } else if (stage != stage_) {
      std::fprintf(stderr, "%s%s\n", stage.c_str(), count.c_str());
    }
    stage_ = stage;
  }

 private:
  void end_line() {
    if (std::exchange(open_, false)) std::fprintf(stderr, "\n");
  }

  const bool json_;
  const bool terminal_;
  bool open_ = false;
  std::string stage_;
};

void print(bool json, const MigrateReport& report) {
  if (json) {
    return print_line(to_json({{"verdict", report.moved ? "moved" : "given up"},
                               {"from", report.from},
                               {"to", report.to},
                               {"place", report.place},
                               {"records", std::to_string(report.records)},
                               {"streams", std::to_string(report.streams)},
                               {"states_before", report.states_before},
                               {"states_after", report.states_after},
                               {"kept", report.kept}}));
  }
  if (!report.moved) {
    print_line(paint(Colour::yellow, "given up ") + "the journal stays where it was; what " +
               safe(report.place) +
               " has of it is a copy that no engine serves. Set `journal` in the configuration back");
    return;
  }
  if (report.from.empty()) {
    print_line(paint(Colour::green, "moved ") + "the journal is " + safe(report.to));
  } else {
    print_line(paint(Colour::green, "moved ") + std::to_string(report.records) + " records of " +
               std::to_string(report.streams) + " streams to " + safe(report.place));
    print_line("verified: both fold to state hash " + report.states_after);
  }
  print_line("the former journal is in " + safe(report.kept) + "; remove it once all is well");
}

}  // namespace

Outcome migrate(Session& session, const HistoryAdapters& adapters, const MigrateArgs& args) {
  const auto stopped = StoppedFolder::take(session);
  if (!stopped) return std::unexpected(stopped.error());
  base::Result<MigrateReport> report = MigrateReport();
  {
    Progress progress(session.json());
    report = adapters.migrate(stopped->folder(), args,
                              [&](const std::string& stage, std::uint64_t done, std::uint64_t of) {
                                progress.tell(stage, done, of);
                              });
  }
  if (!report) return std::unexpected(report.error());
  print(session.json(), *report);
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
