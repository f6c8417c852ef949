#include "engine/view/rocksdb/database.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/view/keys.h"
#include "engine/view/rocksdb/durable_mark.h"
#include "engine/view/rocksdb/marking.h"
#include "engine/view/rocksdb/status.h"

namespace sandglass::engine::view {
namespace {

constexpr std::uint64_t kMaxWalBytes = 128ULL << 20;  // J10

/// RocksDB's own log. What matters reaches us by status and listener; the rest is for who asks with
/// SANDGLASS_LOG=debug. No file: RocksDB ends the process when it writes on in one that a full disk has
/// failed.
class DebugLog final : public rocksdb::Logger {
 public:
  DebugLog() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    base::log(base::LogLevel::debug, "database_log", {{"text", text.data()}});
  }
};

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
  options.info_log = std::make_shared<DebugLog>();
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

/// What RocksDB's own threads tell. Thread rule: called from any thread.
class Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(std::shared_ptr<Marking> marking) : marking_(std::move(marking)) {}

  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { marking_->manifest_moved(); }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    marking_->manifest_moved();
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

  std::atomic<bool> tables_damaged{false};

 private:
  std::shared_ptr<Marking> marking_;
};

}  // namespace

struct Database::Impl {
  explicit Impl(const DatabaseOptions& wanted)
      : path(wanted.path),
        log(wanted.log),
        marking(std::make_shared<Marking>(wanted.mark.empty() ? wanted.path + ".mark" : wanted.mark)) {}
  ~Impl() {
    if (failed) marking->give_up();
  }

  const std::string path;
  const bool log;
  std::shared_ptr<Marking> marking;
  std::shared_ptr<Listener> listener = std::make_shared<Listener>(marking);
  std::unique_ptr<rocksdb::DB> db;
  std::atomic<bool> failed{false};

  std::mutex write_mutex;  // held from a write until it is marked: no other is in the log by then
  bool compacting = true;

  base::Status check(const rocksdb::Options& options);
  void leave_damaged_tables();
};

/// Before anything is changed: is all there that was acknowledged?
base::Status Database::Impl::check(const rocksdb::Options& options) {
  DurableMark& mark = marking->mark();
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
  std::uint64_t first_log = 0;
  if (owner->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &first_log)) {
    if (auto status = check_logs(path, mark, first_log); !status) return status;
  }
  return check_entry(path, mark, owner->GetLatestSequenceNumber());
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

namespace {

/// Nothing lies between them.
bool is_next_key(const std::string& first, const std::string& last) {
  return last.size() == first.size() + 1 && last.back() == '\0' && last.starts_with(first);
}

base::Error read_error(const rocksdb::Status& status, const std::string& path, const std::string& first) {
  return error_of(status, path, "cannot read", is_index_key(first) ? Wanted::derived : Wanted::stored);
}

}  // namespace

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
  if (auto whole = check_entry(wanted.path, impl->marking->mark(), db->GetLatestSequenceNumber()); !whole)
    return std::unexpected(whole.error());
  if (!wanted.read_only && wanted.log) {
    if (auto begun = impl->marking->begin(*db, wanted.path); !begun) return std::unexpected(begun.error());
  }
  return std::unique_ptr<Database>(new Database(std::move(impl)));
}

/// One row, by the filters of the tables; no block is read but its own, so that damage beside it is not its.
base::Result<ScanResult> Database::get(const std::string& key) const {
  ScanResult result;
  std::string value;
  const rocksdb::Status status = impl_->db->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return result;
  if (!status.ok()) return std::unexpected(read_error(status, impl_->path, key));
  result.rows.push_back({key, std::move(value)});
  return result;
}

base::Result<ScanResult> Database::scan(const ScanRequest& request) const {
  ScanResult result;
  if (!request.last.empty() && request.last <= request.first) return result;
  if (is_next_key(request.first, request.last)) return get(request.first);
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
  if (!rows->status().ok()) return std::unexpected(read_error(rows->status(), impl_->path, request.first));
  return result;
}

base::Status Database::checkpoint(const std::string& folder) const {
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(impl_->db.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> owner(made);
  if (status.ok()) status = owner->CreateCheckpoint(folder);
  if (!status.ok()) return std::unexpected(error_of(status, folder, "cannot make a checkpoint in"));
  return {};
}

base::Status Database::write(std::span<const std::vector<ViewChange>> groups) {
  if (impl_->failed) {
    return base::fail(base::Code::io_error, "an earlier write to the journal in " + impl_->path +
                                                " failed; the folder must be opened again");
  }
  rocksdb::WriteBatch batch;
  const auto add = [&batch](const ViewChange& change) {
    return change.value              ? batch.Put(change.key, *change.value)
           : is_put_once(change.key) ? batch.SingleDelete(change.key)
                                     : batch.Delete(change.key);
  };
  // The last entry is one of which a table keeps something: of a row that has come and gone it keeps nothing,
  // and once the log is gone the journal would seem to end before what the mark says (check_entry).
  const ViewChange* last = nullptr;
  for (const std::vector<ViewChange>& changes : groups) {
    for (const ViewChange& change : changes) {
      if (!is_put_once(change.key)) last = &change;
    }
  }
  rocksdb::Status built;
  for (const std::vector<ViewChange>& changes : groups) {
    for (const ViewChange& change : changes) {
      if (built.ok() && &change != last) built = add(change);
    }
  }
  if (built.ok() && last != nullptr) built = add(*last);
  if (!built.ok()) return std::unexpected(error_of(built, impl_->path, "cannot build a batch for"));
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
    written = impl_->marking->wrote();
  } else {
    written = std::unexpected(error_of(status, impl_->path, "cannot write to"));
  }
  if (!written) impl_->failed = true;
  return written;
}

base::Status Database::flush() {
  const rocksdb::Status status = impl_->db->Flush(rocksdb::FlushOptions());
  if (!status.ok()) return std::unexpected(error_of(status, impl_->path, "cannot write to"));
  return {};
}

}  // namespace sandglass::engine::view
