// Where debug and audit read histories: through the API when an engine runs, else from the folder, read-only.
// Which adapters and stream kinds there are is told by main.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/journal/kafka/place.h"
#include "engine/journal/reader.h"
#include "replay-tools/audit/topic.h"
#include "replay-tools/cli/session.h"
#include "replay-tools/rebuild/rebuild.h"
#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::cli {

/// A folder's journal, open for reading only.
class OpenedJournal {
 public:
  virtual ~OpenedJournal() = default;
  virtual const engine::journal::Reader& reader() const = 0;
  /// Of a view of a topic: up to where it has that.
  virtual base::Result<std::vector<engine::journal::kafka::Applied>> applied() const { return {}; }
};

/// A folder whose history is on a topic: what is read from it is a view, as far as that had come.
struct TopicView {
  engine::journal::kafka::Place place;
  std::vector<engine::journal::kafka::Applied> applied;
};

/// What debug and audit read.
struct History {
  std::unique_ptr<OpenedJournal> journal;
  /// Nothing: it is the history itself, or comes from an engine, whose view has everything.
  std::optional<TopicView> view;

  const engine::journal::Reader& reader() const { return journal->reader(); }
};

/// A journal's topic, as the command line names it.
struct TopicPlace {
  std::string brokers;  // host:port,…; empty: none was named
  std::string topic = "history";
  std::string journal;                // the id that it must be; empty: that of its first record
  std::vector<std::string> settings;  // of the client, "name=value"
  std::string settings_file;          // more of them, a line each
};

/// A move of a data folder's journal to where its configuration says that it is.
struct MigrateArgs {
  std::string config;
  std::vector<std::string> settings;
  bool go_on = false;  // with one that was begun; or give it up
  bool back = false;
};
struct MigrateReport {
  bool moved = false;  // else it was given up
  std::string from;    // ids of the journals; empty: the move had ended before
  std::string to;
  std::string place;
  std::uint64_t records = 0;
  std::uint64_t streams = 0;
  std::string states_before;  // hex
  std::string states_after;
  std::string kept;  // where the former journal is
};
/// `of` 0: how much there is to do is not known.
using MigrateTell = std::function<void(const std::string& stage, std::uint64_t done, std::uint64_t of)>;

struct HistoryAdapters {
  /// Opens the journal of a data folder without changing anything.
  std::function<base::Result<std::unique_ptr<OpenedJournal>>(const base::DataFolder&)> open_journal;
  /// Opens a copy of a journal's files, which nobody works on.
  std::function<base::Result<std::unique_ptr<OpenedJournal>>(const std::string& files)> open_copy;
  /// Writes the records of a data folder's journal, and all rows derived from them, into a new journal.
  std::function<base::Result<rebuild::Report>(const base::DataFolder&, const std::string& new_journal)>
      rebuild_journal;
  /// Reaches the brokers and finds the topic.
  std::function<base::Result<std::unique_ptr<audit::TopicSource>>(const TopicPlace&)> open_topic;
  /// Moves a journal; the folder's locks are held.
  std::function<base::Result<MigrateReport>(const base::DataFolder&, const MigrateArgs&, const MigrateTell&)>
      migrate;
  std::shared_ptr<const replay::Kinds> kinds;
};

/// The journal of the session's data folder, by whichever way is open. `usual`: the token that this needs.
/// not_found: the folder's history is on a topic, and nothing of it is in the view here.
base::Result<History> open_history(Session& session, const HistoryAdapters& adapters,
                                   const std::string& usual);

/// A history that was exported.
struct FileHistory {
  engine::core::StreamId stream;
  engine::base::Hash256 leaf;  // of the newest record
  History history;
};
base::Result<FileHistory> open_file(const std::string& path);

/// The stream that `text` names: by its whole id; where an engine answers, the beginning of a run's is
/// enough.
base::Result<engine::core::StreamId> find_stream(const Session& session, const std::string& text);

/// What somebody must know who reads a view of a topic: where the history is, how much of it is here, and how
/// to have the rest.
std::string view_note(const Session& session, const TopicView& view);
/// What a view does not have may be on its topic.
base::Error not_here(const Session& session, const History& history, base::Error error);

}  // namespace sandglass::replay_tools::cli
