#include "engine/view/rocksdb/marking.h"

#include <rocksdb/transaction_log.h>

#include <charconv>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/view/rocksdb/status.h"

namespace sandglass::engine::view {
namespace {

constexpr auto kSyncedEvery = std::chrono::seconds(10);

}  // namespace

Marking::~Marking() {
  // As far as it got: a mark that could not be written is older, and that is all.
  if (db_ != nullptr && mark_.point()) static_cast<void>(mark_.move(*mark_.point(), true));
}

base::Status Marking::begin(rocksdb::DB& db, const std::string& path) {
  if (auto status = mark_.begin_writing(); !status) return status;
  db_ = &db;
  path_ = path;
  // The new log is named by the first write that is synced to it: until then, losing its name loses nothing.
  DurablePoint point = *mark_.point();
  if (auto status = read_manifest(point); !status) return status;
  synced_ = std::chrono::steady_clock::now();
  return mark_.move(point, true);
}

/// The number and the synced length of the MANIFEST.
base::Status Marking::read_manifest(DurablePoint& point) {
  constexpr std::string_view kPrefix = "/MANIFEST-";
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
  if (const rocksdb::Status status = db_->GetLiveFiles(files, &bytes, false); !status.ok())
    return std::unexpected(error_of(status, path_, "cannot list the files of"));
  for (const std::string& file : files) {
    if (!file.starts_with(kPrefix)) continue;
    std::from_chars(file.data() + kPrefix.size(), file.data() + file.size(), point.manifest);
    point.manifest_bytes = bytes;
  }
  return {};
}

base::Status Marking::wrote() {
  if (db_ == nullptr) return {};
  std::unique_ptr<rocksdb::LogFile> log;
  if (const rocksdb::Status status = db_->GetCurrentWalFile(&log); !status.ok())
    return std::unexpected(error_of(status, path_, "cannot tell the log of"));
  DurablePoint point = *mark_.point();
  const auto now = std::chrono::steady_clock::now();
  const bool sync = log->LogNumber() != point.log || now - synced_ >= kSyncedEvery;
  if (first_log_ == 0) first_log_ = log->LogNumber();
  point.first_log = first_log_;
  point.log = log->LogNumber();
  point.log_bytes = log->SizeFileBytes();
  point.entry = db_->GetLatestSequenceNumber();
  if (manifest_moved_.exchange(false)) {
    if (auto status = read_manifest(point); !status) return status;
  }
  if (sync) synced_ = now;
  return mark_.move(point, sync);
}

}  // namespace sandglass::engine::view
