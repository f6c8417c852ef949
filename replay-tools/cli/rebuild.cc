// rebuild: the journal's derived rows anew, in a folder beside it that then takes its place.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/sync_folder.h"
#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/stopped_folder.h"

namespace sandglass::replay_tools::cli {
namespace {

using base::Code;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// What root makes belongs to whom the former journal belongs to, who is the engine (V2).
base::Status give_to_owner(const std::string& journal, const std::string& made) {
  struct stat about{};
  if (stat(journal.c_str(), &about) != 0)
    return std::unexpected(base::system_error("cannot look at", journal, errno));
  if (about.st_uid == geteuid()) return {};
  std::vector<std::string> paths{made, made + ".mark"};
  for (const auto& entry : fs::directory_iterator(made)) paths.push_back(entry.path().string());
  for (const std::string& path : paths) {
    if (lchown(path.c_str(), about.st_uid, about.st_gid) != 0)
      return std::unexpected(base::system_error("cannot give to the engine's uid", path, errno));
  }
  return {};
}

/// A name beside the journal that nothing has.
std::string name_to_keep(const base::DataFolder& folder) {
  for (int number = 1;; ++number) {
    std::string path = folder.file("journal.damaged-" + std::to_string(number));
    if (!fs::exists(fs::symlink_status(path))) return path;
  }
}

/// At no moment is the data folder without a journal, and none has the other's mark.
base::Result<std::string> put_in_place(const base::DataFolder& folder, const std::string& made) {
  const std::string journal = folder.journal();
  const std::string mark = folder.journal_mark();
  if (unlink(mark.c_str()) != 0 && errno != ENOENT)
    return std::unexpected(base::system_error("cannot remove", mark, errno));
  if (auto synced = base::sync_folder(folder.file("run")); !synced) return std::unexpected(synced.error());
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, journal.c_str(), RENAME_EXCHANGE) != 0) {
    base::Error error = base::system_error("cannot exchange " + journal + " for", made, errno);
    error.message += "; move the former away and the latter to its place by hand";
    return std::unexpected(std::move(error));
  }
  const std::string kept = name_to_keep(folder);
  if (rename(made.c_str(), kept.c_str()) != 0)
    return std::unexpected(base::system_error("cannot rename", made, errno));
  if (rename((made + ".mark").c_str(), mark.c_str()) != 0)
    return std::unexpected(base::system_error("cannot rename", made + ".mark", errno));
  for (const std::string& changed : {folder.file("run"), folder.path()}) {
    if (auto synced = base::sync_folder(changed); !synced) return std::unexpected(synced.error());
  }
  return kept;
}

void print(bool json, const rebuild::Report& report, const std::string& kept) {
  if (json) {
    ordered_json out = {{"records", report.records}, {"streams", report.streams}, {"kept", kept}};
    out["damaged"] = ordered_json::array();
    for (const auto& each : report.damaged)
      out["damaged"].push_back({{"stream", each.stream.text()}, {"seq", each.seq}, {"what", each.what}});
    print_line(out.dump(-1, ' ', true, ordered_json::error_handler_t::replace));
    return;
  }
  for (const auto& each : report.damaged) {
    print_line(paint(Colour::red, "damaged ") + safe(each.stream.text()) + " record " +
               std::to_string(each.seq) + ": " + safe(each.what));
  }
  print_line(paint(Colour::green, "rebuilt ") + "every derived row from " + std::to_string(report.records) +
             " records of " + std::to_string(report.streams) + " streams");
  print_line("the former journal is in " + safe(kept) + "; remove it once all is well");
}

}  // namespace

Outcome rebuild(Session& session, const HistoryAdapters& adapters) {
  const auto stopped = StoppedFolder::take(session);
  if (!stopped) return std::unexpected(stopped.error());
  const base::DataFolder& folder = stopped->folder();
  const std::string made = folder.file("journal.rebuilt");
  std::error_code failed;
  const auto remove_made = [&] {
    fs::remove_all(made, failed);
    fs::remove(made + ".mark", failed);
  };
  remove_made();  // what an earlier one that was killed has left
  auto report = adapters.rebuild_journal(folder, made);
  if (!report) {
    remove_made();
    return std::unexpected(report.error());
  }
  if (auto given = give_to_owner(folder.journal(), made); !given) return std::unexpected(given.error());
  const auto kept = put_in_place(folder, made);
  if (!kept) return std::unexpected(kept.error());
  print(session.json(), *report, *kept);
  return report->damaged.empty() ? base::Exit::ok : base::Exit::folder;
}

}  // namespace sandglass::replay_tools::cli
