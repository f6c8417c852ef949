// RocksDB on a disk that is full from its k-th write on, for every k of a journal's life: what was
// acknowledged is there, nothing was acknowledged that is not, and with space again the journal goes on (J6,
// ADV-F21).
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <filesystem>

#include "tests/engine/journal/journal_fixture.h"

namespace sandglass::engine::journal {
namespace {

class FullDisk final : public rocksdb::FileSystemWrapper {
 public:
  FullDisk() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FullDisk"; }

  /// From the k-th write from now on there is no space; 0: there is.
  void full_from(std::uint64_t write) {
    writes_ = 0;
    full_from_ = write;
  }
  std::uint64_t writes() const { return writes_; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    if (full()) return no_space();
    auto status = target()->NewWritableFile(name, options, file, debug);
    if (status.ok()) *file = std::make_unique<File>(std::move(*file), *this);
    return status;
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    if (full()) return no_space();
    return target()->RenameFile(from, to, options, debug);
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, FullDisk& disk)
        : rocksdb::FSWritableFileOwnerWrapper(std::move(file)), disk_(disk) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      if (disk_.full()) return torn(data, options, debug);
      return rocksdb::FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      if (disk_.full()) return no_space();
      return rocksdb::FSWritableFileOwnerWrapper::Sync(options, debug);
    }

   private:
    /// The last bit of space takes the beginning of what was to be written.
    rocksdb::IOStatus torn(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) {
      rocksdb::FSWritableFileOwnerWrapper::Append({data.data(), data.size() / 2}, options, debug)
          .PermitUncheckedError();
      return no_space();
    }
    FullDisk& disk_;
  };

  static rocksdb::IOStatus no_space() { return rocksdb::IOStatus::NoSpace("No space left on device"); }
  bool full() {
    const std::uint64_t number = ++writes_;
    const std::uint64_t from = full_from_;
    return from != 0 && number >= from;
  }

  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> full_from_{0};
};

class JournalOnAFullDisk : public testing::Test {
 protected:
  /// Opens, writes ten batches of two partitions and closes. False: it could not be opened.
  bool live(const std::string& path, std::map<core::PartitionId, core::Sequence>& acknowledged,
            base::Error* why = nullptr) {
    auto database = view::Database::open({.path = path, .env = env_.get()});
    if (!database) {
      if (why != nullptr) *why = database.error();
      return false;
    }
    auto journal = RocksJournal::open(**database, {.meta = kMeta});
    if (!journal) {
      if (why != nullptr) *why = journal.error();
      return false;
    }
    for (core::PartitionId partition = 0; partition < 2; ++partition) {
      const auto owned = (*journal)->own(partition);
      if (!owned) {
        if (why != nullptr) *why = owned.error();
        return false;
      }
      EXPECT_GE(owned->last_sequence, acknowledged[partition]) << "what was acknowledged is not there";
      Writer writer(partition, *owned);
      for (int i = 0; i < 5; ++i) {
        (*journal)->submit(writer.batch(2, 3000));
        const Completed told = wait_for(**journal, 1).front();
        if (told.completion != Completion::durable) {
          EXPECT_NE(told.message.find(path), std::string::npos) << told.message;
          return true;  // J6: the engine ends here and begins anew
        }
        acknowledged[partition] = writer.at().last_sequence;
      }
    }
    return true;
  }

  tests::support::TempFolder folder_;
  std::shared_ptr<FullDisk> disk_ = std::make_shared<FullDisk>();
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
};

TEST_F(JournalOnAFullDisk, EveryWriteOfALifeMayBeTheFirstThatFails) {
  std::map<core::PartitionId, core::Sequence> ignored;
  disk_->full_from(0);
  ASSERT_TRUE(live(folder_.file("measure"), ignored));
  const std::uint64_t writes = disk_->writes();
  ASSERT_GT(writes, 20U);
  std::uint64_t refused_to_open = 0;
  for (std::uint64_t write = 1; write <= writes; ++write) {
    SCOPED_TRACE("full from write " + std::to_string(write));
    const std::string path = folder_.file("journal-" + std::to_string(write));
    std::map<core::PartitionId, core::Sequence> acknowledged;
    base::Error why;
    disk_->full_from(write);
    if (!live(path, acknowledged, &why)) {
      ++refused_to_open;
      EXPECT_EQ(why.code, base::Code::disk_full) << why.message;
      EXPECT_NE(why.message.find(path), std::string::npos) << why.message;
    }
    disk_->full_from(0);
    base::Error still;
    ASSERT_TRUE(live(path, acknowledged, &still)) << "it does not go on: " << still.message;
    ASSERT_TRUE(live(path, acknowledged, &still)) << still.message;
    std::filesystem::remove_all(path);
  }
  EXPECT_GT(refused_to_open, 0U);
}

}  // namespace
}  // namespace sandglass::engine::journal
