#include "engine/view/rocksdb/status.h"

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <filesystem>
#include <system_error>

#include "engine/view/rocksdb/durable_mark.h"

namespace sandglass::engine::view {
namespace {

/// RocksDB names a missing table by the name that such files had long ago.
std::string missing_table(const std::string& what) {
  const std::size_t end = what.find(".ldb: No such file");
  if (end == std::string::npos) return {};
  const std::size_t begin = what.rfind('/', end) + 1;
  return " (the table " + what.substr(begin, end - begin) + ".sst is missing)";
}

/// What is damaged where RocksDB does not say it, or names the MANIFEST for a table that it could not open.
std::string find_place(const std::string& path) {
  std::string place = damaged_place(path);
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path, failed)) {
    if (!place.empty()) break;
    if (entry.path().extension() != ".sst") continue;
    rocksdb::SstFileReader table{rocksdb::Options()};
    const rocksdb::Status opened = table.Open(entry.path().string());
    if (opened.IsCorruption()) place = " (" + entry.path().string() + ": " + opened.ToString() + ")";
  }
  return place;
}

/// Whether another one has the lock, and not the disk kept it from being asked for.
bool is_held(const rocksdb::Status& status) {
  const std::string what = status.ToString();
  return status.IsIOError() && what.find("lock") != std::string::npos &&
         what.find("open a file for lock") == std::string::npos;
}

const char* remedy_of(Wanted wanted) {
  if (wanted == Wanted::derived) {
    return "; these rows are made from records: stop the server and run `sandglass rebuild`, which makes "
           "them "
           "anew and changes no record; check the disk";
  }
  return "; stored data is damaged and nothing of it is used: copy the data folder away, check the disk, and "
         "restore a backup";
}

}  // namespace

base::Error error_of(const rocksdb::Status& status, const std::string& path, const std::string& doing,
                     Wanted wanted) {
  const std::string what = doing + " the journal in " + path + ": " + status.ToString();
  if (status.IsNoSpace()) {
    return {base::Code::disk_full, what +
                                       "; free space on that file system, then start again: nothing that was "
                                       "acknowledged is lost"};
  }
  if (status.IsCorruption()) {
    const bool named = what.find(".sst") != std::string::npos;  // else file and place are looked for
    return {base::Code::record_damaged,
            what + missing_table(what) + (named ? "" : find_place(path)) + remedy_of(wanted)};
  }
  if (is_held(status)) {
    return {base::Code::folder_locked,
            what +
                "; another engine works on this folder: stop it, or choose another "
                "folder with --data"};
  }
  return {base::Code::io_error, what + "; check the disk and the folder's permissions"};
}

}  // namespace sandglass::engine::view
