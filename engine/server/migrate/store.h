// A data folder's journal or its copy, opened for a move, and what its records say.
//
// Thread rule: one thread. Errors: those of the database; record_damaged.
#pragma once

#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"
#include "replay-tools/rebuild/rebuild.h"

namespace sandglass::engine::server::migrate {

struct Store {
  std::unique_ptr<view::Database> database;
  std::unique_ptr<view::RocksView> view;
  journal::JournalMeta meta;

  base::Status write(const std::vector<view::ViewChange>& rows) { return database->write({&rows, 1}); }
};

/// The folder's journal, of whichever kind; only to be read.
base::Result<Store> read_journal(const base::DataFolder& folder);
/// The same, embedded, to be written.
base::Result<Store> write_journal(const base::DataFolder& folder);
/// A copy that is a view of a topic, with its journal's rows in it.
base::Result<Store> open_copy(const std::string& path, bool read_only);

/// Every state folded from its records alone. Damage anywhere is an error: such a journal is not moved.
base::Result<replay_tools::rebuild::Report> fold_all(const view::View& view);
/// All of it under another id: into an embedded journal, or a view of a topic that is yet to be there.
base::Status copy_as(const journal::JournalMeta& as, const view::View& from, const std::string& path,
                     bool embedded);

}  // namespace sandglass::engine::server::migrate
