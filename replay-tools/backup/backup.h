// A backup of a data folder (E17): a folder with
//
//   backup      JSON: what it is a copy of, and when and up to where
//   files       a line a file below `data`, as sha256sum checks them
//   data/       journal, blobs, keys, tokens, configuration: what a server cannot make anew
//   unfinished  only while it is being made: it is not to be used
//
// It holds the tenant key, as everything that is to open these histories must: keep it as safe as the data
// folder. A restored folder gets its file `format` last, so that no server takes a half restored one for its
// own.
//
// Both ways a copy that was begun and not ended is begun anew; everything else that is in the way is refused.
//
// Thread rule: one thread. Errors: already_exists, not_found, record_damaged (a file is not what it was),
// format_unknown, those of tree.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "replay-tools/audit/audit.h"
#include "replay-tools/backup/tree.h"

namespace sandglass::replay_tools::backup {

/// What the backup says of itself.
struct Facts {
  std::string data_folder;  // which it was made of
  std::string folder_id;
  std::string journal;  // its id
  std::int64_t made_ms = 0;
  std::uint64_t records = 0;
  std::uint64_t streams = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::vector<audit::Head> heads;  // of the partitions
};

/// A copy that is on its way.
struct Draft {
  std::string folder;
  Tree tree;
};

/// Copies `folder` with the journal's files from `journal` (a checkpoint, or the journal of a stopped server)
/// into a new folder `to`.
base::Result<Draft> copy_data(const base::DataFolder& folder, const std::string& journal,
                              const std::string& to);
/// Makes it a backup; what `facts` says of files and bytes is filled in.
base::Result<Facts> finish(const Draft& draft, Facts facts);

/// Reads it and compares every file with its hash.
base::Result<Facts> check_files(const std::string& backup);
/// Where the data lies in a backup, or in one that is being made.
std::string data_of(const std::string& backup);

/// Copies the backup's data into a new folder, which is no data folder yet. already_exists also when the
/// folder that the backup was made of is still there, unless `beside_original`.
base::Result<Facts> copy_back(const std::string& backup, const std::string& to, bool beside_original);
/// Makes it a data folder.
base::Status open_for_servers(const std::string& restored);
/// Takes back what copy_back has begun and not ended; nothing else.
void give_up(const std::string& restored);

}  // namespace sandglass::replay_tools::backup
