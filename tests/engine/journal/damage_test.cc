// What the RocksDB journal refuses to open, and how it says so (J7, FR-85, FR-86, FR-87).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/journal/journal_fixture.h"
#include "tests/engine/journal/writer_process.h"

namespace sandglass::engine::journal {
namespace {

namespace fs = std::filesystem;

class DamagedJournal : public testing::Test {
 protected:
  std::string path() const { return folder_.file("journal"); }
  base::Result<std::unique_ptr<view::Database>> open(bool read_only = false) const {
    return view::Database::open({.path = path(), .read_only = read_only});
  }
  /// Writes synced batches of 4 kB in a process that is then killed, so that all of it is in the log.
  void fill(int batches) const {
    WriterProcess writer(path(), batches);
    ASSERT_TRUE(WIFSIGNALED(writer.end()));
  }
  /// The newest log file with content.
  fs::path log() const {
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0 && entry.path() > newest)
        newest = entry.path();
    }
    return newest;
  }
  /// Length of the log without the zeros that the file was allocated with.
  static std::uint64_t used(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    return bytes.find_last_not_of('\0') + 1;
  }
  static void flip(const fs::path& file, std::uint64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(stream.get() ^ 0x40);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(byte);
  }
  core::Sequence last_sequence(core::PartitionId partition) const {
    const auto database = open();
    EXPECT_TRUE(database) << database.error().message;
    return read_ownership(view::RocksView(**database, 0), kMeta, partition)->last_sequence;
  }
  core::Sequence records() const {
    core::Sequence count = 0;
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition)
      count += last_sequence(partition);
    return count;
  }

  tests::support::TempFolder folder_;
};

TEST_F(DamagedJournal, ATornLastWriteIsTolerated) {
  fill(10);
  const fs::path file = log();
  fs::resize_file(file, used(file) - 100);  // the last write was not whole: it cannot have been acknowledged
  ASSERT_TRUE(open());
  EXPECT_GT(records(), 0u);
  EXPECT_LT(records() % 4, 1u) << "half a batch was recovered";
}

TEST_F(DamagedJournal, AFlippedBitInsideSyncedDataRefusesToOpenInsteadOfRollingBack) {
  fill(10);
  const fs::path file = log();
  for (const std::uint64_t part : {3, 5, 7}) {
    const std::uint64_t offset = used(file) * part / 10;
    flip(file, offset);
    const auto refused = open();
    ASSERT_FALSE(refused) << "opened with a damaged log";
    EXPECT_EQ(refused.error().code, base::Code::record_damaged);
    EXPECT_NE(refused.error().message.find(path()), std::string::npos);
    EXPECT_NE(refused.error().message.find("backup"), std::string::npos);
    EXPECT_FALSE(open(true)) << "tools read a damaged log";
    flip(file, offset);
  }
  EXPECT_GE(records(), 40u);
}

TEST_F(DamagedJournal, AChangedLastRecordRefusesToOpenToo) {  // it may have been acknowledged
  fill(10);
  const fs::path file = log();
  const std::uint64_t offset = used(file) - 10;
  flip(file, offset);
  EXPECT_FALSE(open());
  flip(file, offset);
  EXPECT_TRUE(open());
}

TEST_F(DamagedJournal, AMissingNewestLogRefusesToOpen) {
  fill(10);
  const fs::path file = log();
  fs::rename(file, folder_.file("kept"));
  for (const bool read_only : {false, true}) {
    const auto refused = open(read_only);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Code::record_damaged);
    EXPECT_NE(refused.error().message.find("missing"), std::string::npos);
  }
  fs::rename(folder_.file("kept"), file);
  EXPECT_GE(records(), 40u);
}

TEST_F(DamagedJournal, ASecondEngineIsToldWhoHoldsTheFolder) {
  const auto first = open();
  ASSERT_TRUE(first);
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::Code::folder_locked);
  EXPECT_NE(second.error().message.find(path()), std::string::npos);
}

TEST_F(DamagedJournal, AnotherRowFormatIsRefusedByName) {
  {
    const auto database = open();
    const auto journal = RocksJournal::open(**database, {.meta = kMeta});
    ASSERT_TRUE(journal);
    std::string version;
    view::put_u32(version, view::kFolderFormat + 1);
    const std::vector<view::ViewChange> row{{view::meta_key(view::MetaRow::format), version}};
    ASSERT_TRUE((*database)->write({&row, 1}));
  }
  const auto database = open();
  const auto journal = RocksJournal::open(**database, {.meta = kMeta});
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, base::Code::folder_version);
}

TEST_F(DamagedJournal, ToolsFindNothingWhereNoEngineEverRan) {
  const auto database = open(true);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, base::Code::not_found);
  EXPECT_FALSE(fs::exists(path()));
}

// A file size limit stands for a full disk: the write fails with an error in the middle of work (J6, FR-87).
TEST_F(DamagedJournal, AFailedWriteEndsEveryOwnershipAndALaterStartHasAllThatWasAcknowledged) {
  WriterProcess writer(path(), 0, 256 << 10);
  const int status = writer.end();
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  ASSERT_EQ(writer.acknowledged().size(), kPartitions);
  for (const auto& [partition, sequence] : writer.acknowledged())
    EXPECT_GE(last_sequence(partition), sequence);
}

}  // namespace
}  // namespace sandglass::engine::journal
