// RocksDB's statuses as errors of ours, each with what to do. Internal to engine/view/rocksdb.
//
// Thread rule: pure but for reading the files of a damaged folder.
#pragma once

#include <rocksdb/status.h>

#include <cstdint>
#include <string>

#include "engine/base/result.h"

namespace sandglass::engine::view {

/// Whether the rows that were wanted can be made anew from records (J11), which is then the remedy.
enum class Wanted : std::uint8_t { stored, derived };

/// `path` is the database's folder; "DOING the journal in PATH: …". record_damaged, disk_full, folder_locked,
/// io_error.
base::Error error_of(const rocksdb::Status& status, const std::string& path, const std::string& doing,
                     Wanted wanted = Wanted::stored);

}  // namespace sandglass::engine::view
