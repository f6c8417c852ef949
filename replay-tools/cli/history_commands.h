// The commands that read histories: debug, audit verify, audit log, audit refusals; and the one that writes
// what is derived from them anew: rebuild; and the one that moves all of it: migrate.
#pragma once

#include <cstdint>
#include <string>

#include "replay-tools/cli/history.h"

namespace sandglass::replay_tools::cli {

struct DebugArgs {
  std::string run_id;
  std::string file;      // a history in a file, instead
  std::uint64_t at = 0;  // begin after this record
  bool all = false;      // print every record and end
};
/// Reads commands from standard input: next, previous, to a step, an operation, an error, a number; state;
/// quit.
Outcome debug(Session& session, const HistoryAdapters& adapters, const DebugArgs& args);

struct ExportArgs {
  std::string run_id;
  std::string file;  // empty: ID.history, here
};
/// Writes one history into a file that debug and audit verify read.
Outcome history_export(Session& session, const HistoryAdapters& adapters, const ExportArgs& args);

struct AuditArgs {
  std::string stream;  // one stream alone; empty: the whole journal
  std::string file;    // verify the history in this file, and no data folder
  std::uint32_t partition = 0;
  std::uint64_t from = 1;
  TopicPlace topic;  // verify that, and no data folder
};
Outcome audit_verify(Session& session, const HistoryAdapters& adapters, const AuditArgs& args);
/// Who was refused what, and why.
Outcome audit_refusals(Session& session, const HistoryAdapters& adapters, const AuditArgs& args);
Outcome audit_log(Session& session, const HistoryAdapters& adapters, const AuditArgs& args);

struct BackupArgs {
  std::string folder;            // the backup
  bool beside_original = false;  // restore, although what it was made of is still there
};
/// Of the session's data folder, whether its server runs or not; checked before it is called a backup.
Outcome backup_create(Session& session, const HistoryAdapters& adapters, const BackupArgs& args);
Outcome backup_verify(Session& session, const HistoryAdapters& adapters, const BackupArgs& args);
/// Makes the session's data folder of it, which must not exist.
Outcome backup_restore(Session& session, const HistoryAdapters& adapters, const BackupArgs& args);

/// Needs a data folder whose server does not run. The former journal is kept beside the new one.
Outcome rebuild(Session& session, const HistoryAdapters& adapters);

/// Likewise.
Outcome migrate(Session& session, const HistoryAdapters& adapters, const MigrateArgs& args);

}  // namespace sandglass::replay_tools::cli
