// backup create, verify, restore.
#include "replay-tools/backup/backup.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/stopped_folder.h"

namespace sandglass::replay_tools::cli {

namespace {

using backup::Facts;
using base::Code;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal().string();
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

/// What the journal in these files is, checked whole.
base::Result<Facts> read_journal(const HistoryAdapters& adapters, const std::string& files) {
  auto journal = adapters.open_copy(files);
  if (!journal) return std::unexpected(journal.error());
  const auto id = (*journal)->reader().journal_id();
  if (!id) return std::unexpected(id.error());
  const auto report = audit::verify((*journal)->reader());
  if (!report) return std::unexpected(report.error());
  if (!report->good()) {
    const auto& first = report->findings.front();
    return base::fail(Code::record_damaged, "the journal in it is damaged: partition " +
                                                std::to_string(first.partition) + ", sequence " +
                                                std::to_string(first.sequence) + ": " + first.what +
                                                "; `sandglass audit verify` says more");
  }
  return Facts{
      .journal = *id, .records = report->records, .streams = report->streams, .heads = report->heads};
}

base::Result<Facts> make(const HistoryAdapters& adapters, const base::DataFolder& folder,
                         const std::string& journal, std::int64_t made_ms, const std::string& to) {
  auto draft = backup::copy_data(folder, journal, to);
  if (!draft) return std::unexpected(draft.error());
  auto facts = read_journal(adapters, backup::data_of(to) + "/journal");
  if (!facts) return std::unexpected(facts.error());
  facts->data_folder = folder.path();
  facts->folder_id = folder.id();
  facts->made_ms = made_ms;
  return backup::finish(*draft, std::move(*facts));
}

/// Of a folder whose server runs: as it is when the engine has made a checkpoint.
base::Result<Facts> make_beside_engine(Session& session, const HistoryAdapters& adapters,
                                       const base::DataFolder& folder, const std::string& to) {
  auto client = session.connect("operator");
  if (!client) return std::unexpected(client.error());
  base::Result<Facts> made = base::fail(Code::internal, "the engine made no checkpoint");
  const std::int64_t asked_ms = now_ms();
  auto held = (*client)->hold_checkpoint([&](const api::Checkpoint& checkpoint) {
    const std::string files = folder.file(checkpoint.folder());
    made = make(adapters, folder, files, asked_ms, to);
    if (!made && !fs::exists(files)) {
      made = base::fail(Code::unavailable, "the engine ended while the backup was being made; make it again");
    }
    return false;
  });
  if (!held) return std::unexpected(held.error());
  return made;
}

base::Result<Facts> make_of_stopped(const Session& session, const HistoryAdapters& adapters,
                                    const std::string& to) {
  const auto stopped = StoppedFolder::take(session);
  if (!stopped) return std::unexpected(stopped.error());
  return make(adapters, stopped->folder(), stopped->folder().journal(), now_ms(), to);
}

base::Status same_journal(const Facts& wanted, const Facts& found) {
  const auto equal = [](const audit::Head& a, const audit::Head& b) {
    return a.partition == b.partition && a.sequence == b.sequence && a.chain == b.chain;
  };
  if (wanted.journal == found.journal && std::ranges::equal(wanted.heads, found.heads, equal)) return {};
  return base::fail(Code::record_damaged,
                    "the journal in it is not the one that the backup describes; take another backup");
}

void print(const Session& session, const char* what, const Facts& facts, const std::string& place,
           const std::string& note) {
  if (session.json()) {
    const ordered_json out = {{"backup", place},          {"journal", facts.journal},
                              {"made_ms", facts.made_ms}, {"records", facts.records},
                              {"streams", facts.streams}, {"files", facts.files},
                              {"bytes", facts.bytes}};
    print_line(out.dump(-1, ' ', true, ordered_json::error_handler_t::replace));
    return;
  }
  print_line(paint(Colour::green, what) + " " + safe(place) + ": " + std::to_string(facts.records) +
             " records of " + std::to_string(facts.streams) + " streams as of " + show_time(facts.made_ms) +
             ", " + std::to_string(facts.files) + " files, " + show_bytes(facts.bytes));
  if (!note.empty()) print_line(safe(note));
}

}  // namespace

Outcome backup_create(Session& session, const HistoryAdapters& adapters, const BackupArgs& args) {
  if (!session.options().address.empty()) {
    return base::fail(Code::usage,
                      "a backup copies the files of a data folder: name that with --data, on its machine");
  }
  auto path = session.folder();
  if (!path) return std::unexpected(path.error());
  auto folder = base::DataFolder::open_read_only(*path);
  if (!folder) return std::unexpected(folder.error());
  const std::string to = absolute(args.folder);
  if (to == *path || to.starts_with(*path + "/")) {
    return base::fail(Code::usage,
                      "a backup inside the data folder would be lost with it: choose another "
                      "place than " +
                          to);
  }
  auto facts = session.engine_answers() ? make_beside_engine(session, adapters, *folder, to)
                                        : make_of_stopped(session, adapters, to);
  if (!facts) return std::unexpected(facts.error());
  print(session, "backed up to", *facts, to,
        "it holds the tenant key: keep it as safe as the data folder itself");
  return base::Exit::ok;
}

Outcome backup_verify(Session& session, const HistoryAdapters& adapters, const BackupArgs& args) {
  const std::string from = absolute(args.folder);
  auto facts = backup::check_files(from);
  if (!facts) return std::unexpected(facts.error());
  const auto read = read_journal(adapters, backup::data_of(from) + "/journal");
  if (!read) return std::unexpected(read.error());
  if (auto same = same_journal(*facts, *read); !same) return std::unexpected(same.error());
  print(session, "verified", *facts, from, "");
  return base::Exit::ok;
}

namespace {

base::Result<Facts> restore(const HistoryAdapters& adapters, const BackupArgs& args, const std::string& to) {
  auto facts = backup::copy_back(absolute(args.folder), to, args.beside_original);
  if (!facts) return facts;
  const auto read = read_journal(adapters, to + "/journal");
  if (!read) return std::unexpected(read.error());
  if (auto same = same_journal(*facts, *read); !same) return std::unexpected(same.error());
  if (auto opened = backup::open_for_servers(to); !opened) return std::unexpected(opened.error());
  return facts;
}

}  // namespace

Outcome backup_restore(Session& session, const HistoryAdapters& adapters, const BackupArgs& args) {
  auto to = session.folder();
  if (!to) return std::unexpected(to.error());
  auto facts = restore(adapters, args, *to);
  if (!facts) {
    backup::give_up(*to);
    return std::unexpected(facts.error());
  }
  print(session, "restored to", *facts, *to,
        "what was done since then is not in it: as soon as a server starts on it, runs that were open go on "
        "from there, and do that again under the same keys. `" +
            session.hint("audit log") + "` reads it without starting one");
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
