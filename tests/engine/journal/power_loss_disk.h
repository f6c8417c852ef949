// A file system for RocksDB that can lose power: bytes that were not synced are lost but for a prefix drawn
// by chance, files whose folder was not synced may be lost whole (J32). It can also fail reads.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "engine/base/draw.h"

namespace sandglass::engine::journal {

class PowerLossDisk final : public rocksdb::FileSystemWrapper {
 public:
  explicit PowerLossDisk(base::Random& random)
      : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()), random_(random) {}
  const char* Name() const override { return "PowerLossDisk"; }

  /// From now on every write fails, as from a process that is no more.
  void cut() { off_ = true; }
  /// Close the database first. Applies the loss; the disk works again.
  void restart() {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, state] : files_) {
      std::error_code gone;
      if (unlisted_.contains(name) && base::draw_below(random_, 2) == 0) {
        std::filesystem::remove(name, gone);
      } else if (state.written > state.synced && std::filesystem::exists(name, gone)) {
        std::filesystem::resize_file(
            name, state.synced + base::draw_below(random_, state.written - state.synced + 1));
      }
    }
    files_.clear();
    unlisted_.clear();
    off_ = false;
  }
  /// The n-th read of a log from now on fails once; 0: none.
  void fail_log_read(std::uint64_t nth) { reads_until_failure_ = nth; }
  std::uint64_t log_reads() const { return log_reads_; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  struct State {
    std::uint64_t written = 0;
    std::uint64_t synced = 0;
  };
  class File;
  class Log;
  class Folder;

  static rocksdb::IOStatus no_power() { return rocksdb::IOStatus::IOError("no power"); }
  bool read_fails() {
    ++log_reads_;
    return reads_until_failure_ > 0 && --reads_until_failure_ == 0;
  }

  base::Random& random_;
  std::atomic<bool> off_{false};
  std::atomic<std::uint64_t> reads_until_failure_{0};
  std::atomic<std::uint64_t> log_reads_{0};
  std::mutex mutex_;
  std::map<std::string, State> files_;
  std::set<std::string> unlisted_;  // made, and their folder not synced since
};

class PowerLossDisk::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile> file, PowerLossDisk& disk, std::string name)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(file)), disk_(disk), name_(std::move(name)) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    if (disk_.off_) return no_power();
    auto status = rocksdb::FSWritableFileOwnerWrapper::Append(data, options, debug);
    const std::lock_guard lock(disk_.mutex_);
    if (status.ok()) disk_.files_[name_].written += data.size();
    return status;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return synced(rocksdb::FSWritableFileOwnerWrapper::Sync(options, debug));
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return synced(rocksdb::FSWritableFileOwnerWrapper::Fsync(options, debug));
  }

 private:
  rocksdb::IOStatus synced(rocksdb::IOStatus status) {
    if (disk_.off_) return no_power();
    const std::lock_guard lock(disk_.mutex_);
    if (status.ok()) disk_.files_[name_].synced = disk_.files_[name_].written;
    return status;
  }

  PowerLossDisk& disk_;
  std::string name_;
};

class PowerLossDisk::Log final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  Log(std::unique_ptr<rocksdb::FSSequentialFile> file, PowerLossDisk& disk)
      : rocksdb::FSSequentialFileOwnerWrapper(std::move(file)), disk_(disk) {}
  rocksdb::IOStatus Read(std::size_t most, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* debug) override {
    if (disk_.read_fails()) return rocksdb::IOStatus::IOError("a read failed");
    return rocksdb::FSSequentialFileOwnerWrapper::Read(most, options, result, scratch, debug);
  }

 private:
  PowerLossDisk& disk_;
};

class PowerLossDisk::Folder final : public rocksdb::FSDirectoryWrapper {
 public:
  Folder(std::unique_ptr<rocksdb::FSDirectory> folder, PowerLossDisk& disk, std::string name)
      : rocksdb::FSDirectoryWrapper(std::move(folder)), disk_(disk), name_(std::move(name)) {}
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return synced(rocksdb::FSDirectoryWrapper::Fsync(options, debug));
  }
  rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug,
                                        const rocksdb::DirFsyncOptions& how) override {
    return synced(rocksdb::FSDirectoryWrapper::FsyncWithDirOptions(options, debug, how));
  }

 private:
  rocksdb::IOStatus synced(rocksdb::IOStatus status) {
    if (disk_.off_) return no_power();
    const std::lock_guard lock(disk_.mutex_);
    std::erase_if(disk_.unlisted_, [&](const std::string& file) {
      return std::filesystem::path(file).parent_path() == std::filesystem::path(name_ + "/").parent_path();
    });
    return status;
  }

  PowerLossDisk& disk_;
  std::string name_;
};

inline rocksdb::IOStatus PowerLossDisk::NewWritableFile(const std::string& name,
                                                        const rocksdb::FileOptions& options,
                                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                                        rocksdb::IODebugContext* debug) {
  if (off_) return no_power();
  auto status = target()->NewWritableFile(name, options, file, debug);
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  files_[name] = {};
  unlisted_.insert(name);
  *file = std::make_unique<File>(std::move(*file), *this, name);
  return status;
}

inline rocksdb::IOStatus PowerLossDisk::NewSequentialFile(const std::string& name,
                                                          const rocksdb::FileOptions& options,
                                                          std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                                          rocksdb::IODebugContext* debug) {
  auto status = target()->NewSequentialFile(name, options, file, debug);
  if (status.ok() && name.ends_with(".log")) *file = std::make_unique<Log>(std::move(*file), *this);
  return status;
}

inline rocksdb::IOStatus PowerLossDisk::NewDirectory(const std::string& name,
                                                     const rocksdb::IOOptions& options,
                                                     std::unique_ptr<rocksdb::FSDirectory>* folder,
                                                     rocksdb::IODebugContext* debug) {
  auto status = target()->NewDirectory(name, options, folder, debug);
  if (status.ok()) *folder = std::make_unique<Folder>(std::move(*folder), *this, name);
  return status;
}

inline rocksdb::IOStatus PowerLossDisk::RenameFile(const std::string& from, const std::string& to,
                                                   const rocksdb::IOOptions& options,
                                                   rocksdb::IODebugContext* debug) {
  if (off_) return no_power();
  auto status = target()->RenameFile(from, to, options, debug);
  const std::lock_guard lock(mutex_);
  // A rename that is lost is not modelled: the new name is there, with what is synced of it.
  if (const auto found = files_.find(from); status.ok() && found != files_.end()) {
    files_[to] = found->second;
    files_.erase(found);
  }
  unlisted_.erase(from);
  return status;
}

inline rocksdb::IOStatus PowerLossDisk::DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                                                   rocksdb::IODebugContext* debug) {
  if (off_) return no_power();
  auto status = target()->DeleteFile(name, options, debug);
  const std::lock_guard lock(mutex_);
  files_.erase(name);
  unlisted_.erase(name);
  return status;
}

}  // namespace sandglass::engine::journal
