#include "engine/view/rocksdb/database.h"

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/view/rocksdb/durable_mark.h"

namespace sandglass::engine::view {
namespace {

constexpr std::uint64_t kMaxWalBytes = 128ULL << 20;  // J10
constexpr auto kMarkSyncedEvery = std::chrono::seconds(10);

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
  options.avoid_flush_during_shutdown = !wanted.flush_on_close;
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

/// RocksDB names a missing table by the name that such files had long ago.
std::string missing_table(const std::string& what) {
  const std::size_t end = what.find(".ldb: No such file");
  if (end == std::string::npos) return {};
  const std::size_t begin = what.rfind('/', end) + 1;
  return " (the table " + what.substr(begin, end - begin) + ".sst is missing)";
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
        what + missing_table(what) + damaged_place(path) +
            "; stored data is damaged and nothing of it is used: copy the data folder away, check the disk, "
            "and restore a backup"};
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

namespace {

/// What RocksDB's own threads tell. Thread rule: called from any thread.
class Listener final : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { manifest_moved = true; }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    manifest_moved = true;
  }
  /// A damaged table file must not end the writing of everybody: whoever reads the damage is told, compaction
  /// is left alone, and all else goes on (E14).
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* status) override {
    if (reason != rocksdb::BackgroundErrorReason::kCompaction || !status->IsCorruption()) return;
    if (!tables_damaged.exchange(true)) {
      base::log(base::LogLevel::warning, "journal_file_damaged",
                {{"reason", status->ToString()},
                 {"remedy",
                  "compaction is off until the file is whole again; streams that need the damaged bytes are "
                  "parked. Stop the engine, check the disk, and restore the data folder from a backup"}});
    }
    *status = rocksdb::Status::OK();
  }

  std::atomic<bool> manifest_moved{false};
  std::atomic<bool> tables_damaged{false};
};

}  // namespace

struct Database::Impl {
  explicit Impl(const DatabaseOptions& wanted)
      : path(wanted.path), log(wanted.log), mark(wanted.mark.empty() ? wanted.path + ".mark" : wanted.mark) {}
  ~Impl() {
    // As far as it got: a mark that could not be written is older, and that is all.
    if (marking && !failed && mark.point()) static_cast<void>(mark.move(*mark.point(), true));
  }

  const std::string path;
  const bool log;
  std::shared_ptr<Listener> listener = std::make_shared<Listener>();
  std::unique_ptr<rocksdb::DB> db;
  std::atomic<bool> failed{false};

  std::mutex write_mutex;  // what follows: after a write and before the next, all of the log is synced
  DurableMark mark;
  bool marking = false;
  bool compacting = true;
  std::chrono::steady_clock::time_point mark_synced;

  base::Status check(const rocksdb::Options& options);
  base::Status begin_marking();
  base::Status read_manifest(DurablePoint& point);
  base::Status move_mark();
  void leave_damaged_tables();
};

/// Before anything is changed: is all there that was acknowledged?
base::Status Database::Impl::check(const rocksdb::Options& options) {
  if (auto status = mark.read(); !status) return status;
  if (!mark.point() && std::filesystem::exists(path + "/CURRENT")) {
    base::log(base::LogLevel::warning, "journal_mark_missing",
              {{"file", mark.file()},
               {"meaning", "whether the newest entries of the journal are all there cannot be checked"}});
  }
  bool probe = false;
  if (auto status = check_files(path, mark, probe); !status || !probe) return status;
  rocksdb::DB* read = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, path, &read);
  const std::unique_ptr<rocksdb::DB> owner(read);
  if (!opened.ok()) return std::unexpected(error_of(opened, path, "cannot open"));
  return check_entry(path, mark, owner->GetLatestSequenceNumber());
}

/// The number and the synced length of the MANIFEST.
base::Status Database::Impl::read_manifest(DurablePoint& point) {
  constexpr std::string_view kPrefix = "/MANIFEST-";
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
  if (const rocksdb::Status status = db->GetLiveFiles(files, &bytes, false); !status.ok())
    return std::unexpected(error_of(status, path, "cannot list the files of"));
  for (const std::string& file : files) {
    if (!file.starts_with(kPrefix)) continue;
    std::from_chars(file.data() + kPrefix.size(), file.data() + file.size(), point.manifest);
    point.manifest_bytes = bytes;
  }
  return {};
}

base::Status Database::Impl::begin_marking() {
  if (auto status = mark.begin_writing(); !status) return status;
  marking = true;
  // The new log is named by the first write that is synced to it: until then, losing its name loses nothing.
  DurablePoint point = *mark.point();
  if (auto status = read_manifest(point); !status) return status;
  mark_synced = std::chrono::steady_clock::now();
  return mark.move(point, true);
}

/// After a synced write, before it is acknowledged.
base::Status Database::Impl::move_mark() {
  std::unique_ptr<rocksdb::LogFile> log;
  if (const rocksdb::Status status = db->GetCurrentWalFile(&log); !status.ok())
    return std::unexpected(error_of(status, path, "cannot tell the log of"));
  DurablePoint point = *mark.point();
  const auto now = std::chrono::steady_clock::now();
  const bool sync = log->LogNumber() != point.log || now - mark_synced >= kMarkSyncedEvery;
  point.log = log->LogNumber();
  point.log_bytes = log->SizeFileBytes();
  point.entry = db->GetLatestSequenceNumber();
  if (listener->manifest_moved.exchange(false)) {
    if (auto status = read_manifest(point); !status) return status;
  }
  if (sync) mark_synced = now;
  return mark.move(point, sync);
}

/// Compaction would read the damaged file again and again; what it leaves undone must not slow the writers.
void Database::Impl::leave_damaged_tables() {
  if (!compacting || !listener->tables_damaged) return;
  compacting = false;
  const rocksdb::Status status = db->SetOptions({{"disable_auto_compactions", "true"},
                                                 {"level0_slowdown_writes_trigger", "1000000"},
                                                 {"level0_stop_writes_trigger", "1000000"}});
  if (!status.ok())
    base::log(base::LogLevel::warning, "compaction_not_stopped", {{"reason", status.ToString()}});
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() = default;

base::Result<std::unique_ptr<Database>> Database::open(const DatabaseOptions& wanted) {
  auto impl = std::make_unique<Impl>(wanted);
  rocksdb::Options options = database_options(wanted);
  const bool exists = std::filesystem::exists(wanted.path + "/CURRENT");
  if (wanted.log) {
    if (const auto whole = impl->check(options); !whole) return std::unexpected(whole.error());
  }
  if (!exists && (!wanted.create_if_missing || wanted.read_only)) {
    return base::fail(base::Code::not_found,
                      "there is no journal in " + wanted.path + ": no engine has run with this data folder");
  }
  options.listeners.push_back(impl->listener);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = wanted.read_only ? rocksdb::DB::OpenForReadOnly(options, wanted.path, &db)
                                                  : rocksdb::DB::Open(options, wanted.path, &db);
  if (!status.ok()) return std::unexpected(error_of(status, wanted.path, "cannot open"));
  impl->db.reset(db);
  if (auto whole = check_entry(wanted.path, impl->mark, db->GetLatestSequenceNumber()); !whole)
    return std::unexpected(whole.error());
  if (!wanted.read_only && wanted.log) {
    if (auto begun = impl->begin_marking(); !begun) return std::unexpected(begun.error());
  }
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
  options.sync = impl_->log;
  options.disableWAL = !impl_->log;
  const std::lock_guard lock(impl_->write_mutex);
  impl_->leave_damaged_tables();
  SG_CRASH_POINT("journal.before_sync");
  const rocksdb::Status status = impl_->db->Write(options, &batch);
  SG_CRASH_POINT("journal.after_sync");
  base::Status written;
  if (status.ok()) {
    if (impl_->log) written = impl_->move_mark();
  } else {
    written = std::unexpected(error_of(status, impl_->path, "cannot write to"));
  }
  if (!written) impl_->failed = true;
  return written;
}

}  // namespace sandglass::engine::view
