// Where debug and audit read histories: through the API when an engine runs, else from the folder, read-only.
// Which adapters and stream kinds there are is told by main.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/journal/reader.h"
#include "replay-tools/cli/session.h"
#include "replay-tools/rebuild/rebuild.h"
#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::cli {

/// A folder's journal, open for reading only.
class OpenedJournal {
 public:
  virtual ~OpenedJournal() = default;
  virtual const engine::journal::Reader& reader() const = 0;
};

struct HistoryAdapters {
  /// Opens the journal of a data folder without changing anything.
  std::function<base::Result<std::unique_ptr<OpenedJournal>>(const base::DataFolder&)> open_journal;
  /// Writes the records of a data folder's journal, and all rows derived from them, into a new journal.
  std::function<base::Result<rebuild::Report>(const base::DataFolder&, const std::string& new_journal)>
      rebuild_journal;
  std::shared_ptr<const replay::Kinds> kinds;
};

/// The journal of the session's data folder, by whichever way is open. `usual`: the token that this needs.
base::Result<std::unique_ptr<OpenedJournal>> open_history(Session& session, const HistoryAdapters& adapters,
                                                          const std::string& usual);

}  // namespace sandglass::replay_tools::cli
