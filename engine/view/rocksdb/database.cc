#include "engine/view/rocksdb/database.h"

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "engine/base/crash_point.h"
#include "engine/view/rocksdb/log_mark.h"

namespace sandglass::engine::view {
namespace {

constexpr std::uint64_t kMaxWalBytes = 128ULL << 20;  // J10

rocksdb::Options database_options(const DatabaseOptions& wanted) {
  rocksdb::Options options;
  if (wanted.env != nullptr) options.env = wanted.env;
  options.create_if_missing = wanted.create_if_missing && !wanted.read_only;
  // Tolerates an incomplete write at the log's end and nothing else. The point-in-time default would stop at
  // the first damage and drop all that follows; the absolute mode would refuse to start after an ordinary
  // kill.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.max_total_wal_size = kMaxWalBytes;
  options.write_buffer_size = 32ULL << 20;
  options.max_background_jobs = 2;
  // No resumption behind our back: after a failed sync the folder is opened again (J6).
  options.max_bgerror_resume_count = 0;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_log_file_size = 4ULL << 20;
  options.keep_log_file_num = 3;
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

base::Error error_of(const rocksdb::Status& status, const std::string& path, const std::string& doing) {
  const std::string what = doing + " the journal in " + path + ": " + status.ToString();
  if (status.IsNoSpace()) {
    return {base::Code::disk_full, what +
                                       "; free space on that file system, then start again: nothing that was "
                                       "acknowledged is lost"};
  }
  if (status.IsCorruption()) {
    return {
        base::Code::record_damaged,
        what +
            "; stored data is damaged and nothing of it is used: copy the folder away, check the disk, and "
            "restore a backup"};
  }
  if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
    return {base::Code::folder_locked,
            what +
                "; another engine works on this folder: stop it, or choose another "
                "folder with --data"};
  }
  return {base::Code::io_error, what + "; check the disk and the folder's permissions"};
}

}  // namespace

struct Database::Impl {
  std::string path;
  bool read_only = false;
  std::unique_ptr<rocksdb::DB> db;
  std::mutex mark_mutex;
  LogMark mark;

  explicit Impl(const DatabaseOptions& wanted)
      : path(wanted.path), read_only(wanted.read_only), mark(wanted.path) {}
  /// After a synced write, before it is acknowledged.
  base::Status mark_log() {
    std::unique_ptr<rocksdb::LogFile> log;
    if (const rocksdb::Status status = db->GetCurrentWalFile(&log); !status.ok()) {
      return std::unexpected(error_of(status, path, "cannot tell the log of"));
    }
    const std::lock_guard lock(mark_mutex);
    return mark.set(log->LogNumber());
  }
  std::atomic<bool> failed{false};
};

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() = default;

base::Result<std::unique_ptr<Database>> Database::open(const DatabaseOptions& wanted) {
  auto impl = std::make_unique<Impl>(wanted);
  if (!wanted.create_if_missing || wanted.read_only) {
    if (!std::filesystem::exists(wanted.path + "/CURRENT")) {
      return base::fail(base::Code::not_found, "there is no journal in " + wanted.path +
                                                   ": no engine has run with this data folder");
    }
  }
  if (const auto whole = impl->mark.check(); !whole) return std::unexpected(whole.error());
  const rocksdb::Options options = database_options(wanted);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = wanted.read_only ? rocksdb::DB::OpenForReadOnly(options, wanted.path, &db)
                                                  : rocksdb::DB::Open(options, wanted.path, &db);
  if (!status.ok()) return std::unexpected(error_of(status, wanted.path, "cannot open"));
  impl->db.reset(db);
  return std::unique_ptr<Database>(new Database(std::move(impl)));
}

base::Result<ScanResult> Database::scan(const ScanRequest& request) const {
  ScanResult result;
  if (!request.last.empty() && request.last <= request.first) return result;
  rocksdb::ReadOptions options;
  const rocksdb::Slice lower(request.first);
  const rocksdb::Slice upper(request.last);
  options.iterate_lower_bound = &lower;
  if (!request.last.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(impl_->db->NewIterator(options));
  std::size_t bytes = 0;
  const auto step = [&] { request.reverse ? rows->Prev() : rows->Next(); };
  for (request.reverse ? rows->SeekToLast() : rows->SeekToFirst(); rows->Valid(); step()) {
    if (result.rows.size() >= request.limit || (bytes >= request.max_bytes && !result.rows.empty())) {
      result.more = true;
      break;
    }
    bytes += rows->key().size() + rows->value().size();
    result.rows.push_back({rows->key().ToString(), rows->value().ToString()});
  }
  if (!rows->status().ok()) return std::unexpected(error_of(rows->status(), impl_->path, "cannot read"));
  return result;
}

base::Status Database::write(std::span<const std::vector<ViewChange>> groups) {
  if (impl_->failed) {
    return base::fail(base::Code::io_error, "an earlier write to the journal in " + impl_->path +
                                                " failed; the folder must be opened again");
  }
  rocksdb::WriteBatch batch;
  for (const std::vector<ViewChange>& changes : groups) {
    for (const ViewChange& change : changes) {
      const rocksdb::Status status =
          change.value ? batch.Put(change.key, *change.value) : batch.Delete(change.key);
      if (!status.ok()) return std::unexpected(error_of(status, impl_->path, "cannot build a batch for"));
    }
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  SG_CRASH_POINT("journal.before_sync");
  const rocksdb::Status status = impl_->db->Write(options, &batch);
  SG_CRASH_POINT("journal.after_sync");
  base::Status written;
  if (status.ok()) {
    written = impl_->mark_log();
  } else {
    written = std::unexpected(error_of(status, impl_->path, "cannot write to"));
  }
  if (!written) impl_->failed = true;
  return written;
}

}  // namespace sandglass::engine::view
