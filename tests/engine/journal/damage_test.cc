// What the RocksDB journal refuses to open, and how it says so (J7, FR-85, FR-86, FR-87).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/view/rocksdb/durable_mark.h"
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
  /// The same in this process, with an orderly end.
  void fill_and_close(int batches) const {
    const auto database = open();
    ASSERT_TRUE(database) << database.error().message;
    const auto journal = RocksJournal::open(**database, {.meta = kMeta, .on_completion = {}});
    ASSERT_TRUE(journal);
    Writer writer(0, *(*journal)->own(0));
    for (int i = 0; i < batches; ++i) (*journal)->submit(writer.batch(4, 1000));
    wait_for(**journal, static_cast<std::size_t>(batches));
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
  static std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  /// Length of the log without the zeros that the file was allocated with.
  static std::uint64_t used(const fs::path& file) { return contents(file).find_last_not_of('\0') + 1; }
  fs::path current() const {
    std::string name = contents(path() + "/CURRENT");
    name.pop_back();
    return path() + "/" + name;
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

/// What a kill in the middle of an append leaves.
TEST_F(DamagedJournal, AWriteThatWasCutShortBeforeItWasAcknowledgedIsTolerated) {
  fill(10);
  const fs::path file = log();
  const std::uint64_t whole = used(file);
  const std::string bytes = contents(file);
  const std::size_t length = static_cast<std::uint8_t>(bytes[4]) + 256 * static_cast<std::uint8_t>(bytes[5]);
  std::ofstream(file, std::ios::binary | std::ios::app) << bytes.substr(0, 7 + length / 2);  // half a record
  ASSERT_EQ(fs::file_size(file), whole + 7 + length / 2);
  ASSERT_TRUE(open());
  EXPECT_GE(records(), 40u);
  EXPECT_LT(records() % 4, 1u) << "half a batch was recovered";
}

// J7: wherever it is cut, also between two records: what was acknowledged is not rolled back in silence.
TEST_F(DamagedJournal, ALogThatWasCutAnywhereRefusesToOpenAndSaysWhere) {
  fill_and_close(10);  // so that all of the log is marked
  const fs::path file = log();
  const std::string bytes = contents(file);
  const std::uint64_t whole = used(file);
  std::vector<std::uint64_t> cuts{0, 1, whole / 2, whole - 100, whole - 1};
  for (std::uint64_t at = 7; at < whole; at += 1999) cuts.push_back(at);
  for (const std::uint64_t cut : cuts) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes.substr(0, cut);
    for (const bool read_only : {true, false}) {
      const auto refused = open(read_only);
      ASSERT_FALSE(refused) << "opened with a log cut at " << cut << " of " << whole;
      EXPECT_EQ(refused.error().code, base::Code::record_damaged);
      EXPECT_NE(refused.error().message.find(file.string()), std::string::npos) << refused.error().message;
      EXPECT_NE(refused.error().message.find("byte " + std::to_string(cut)), std::string::npos);
      EXPECT_NE(refused.error().message.find("backup"), std::string::npos);
    }
    ASSERT_EQ(fs::file_size(file), cut) << "the refusal changed the file";
  }
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_GE(records(), 40u);
}

TEST_F(DamagedJournal, ALogWhoseEndWasZeroedRefusesToOpen) {
  fill(10);
  const fs::path file = log();
  const std::uint64_t whole = used(file);
  fs::resize_file(file, whole / 2);
  fs::resize_file(file, whole);
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(file.string()), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find(" at byte "), std::string::npos) << refused.error().message;
}

// The mark stands beside the folder: older files are seen, all of them or some.
TEST_F(DamagedJournal, AnOlderCopyOfTheFolderRefusesToOpen) {
  fill(5);
  fs::copy(path(), folder_.file("old"), fs::copy_options::recursive);
  fill(5);
  fs::rename(path(), folder_.file("new"));
  fs::copy(folder_.file("old"), path(), fs::copy_options::recursive);
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::record_damaged);
  EXPECT_NE(refused.error().message.find("older"), std::string::npos) << refused.error().message;
  fs::remove_all(path());
  EXPECT_FALSE(open()) << "a folder that is gone was taken for a new one";
  fs::rename(folder_.file("new"), path());
  EXPECT_GE(records(), 40u);
}

TEST_F(DamagedJournal, AnOlderManifestOrACutOneRefusesToOpen) {
  fill(5);
  ASSERT_GE(records(), 20u);  // opens and closes it: another MANIFEST
  const fs::path manifest = current();
  const std::string bytes = contents(manifest);
  for (const std::uint64_t cut : {bytes.size() - 1, bytes.size() / 2, std::size_t{0}}) {
    fs::resize_file(manifest, cut);
    const auto refused = open();
    ASSERT_FALSE(refused) << "opened with a MANIFEST cut at " << cut;
    EXPECT_NE(refused.error().message.find(manifest.string()), std::string::npos) << refused.error().message;
  }
  std::ofstream(manifest, std::ios::binary | std::ios::trunc) << bytes;
  std::ofstream(path() + "/CURRENT") << "MANIFEST-000001\n";
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("CURRENT"), std::string::npos) << refused.error().message;
  std::ofstream(path() + "/CURRENT") << manifest.filename().string() << "\n";
  EXPECT_GE(records(), 20u);
}

TEST_F(DamagedJournal, AMissingTableRefusesToOpenByName) {
  fill(5);
  ASSERT_GE(records(), 20u);  // its log has become a table
  fs::path table;
  for (const auto& entry : fs::directory_iterator(path())) {
    if (entry.path().extension() == ".sst") table = entry.path();
  }
  ASSERT_FALSE(table.empty());
  fs::rename(table, folder_.file("kept"));
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(table.filename().string()), std::string::npos)
      << refused.error().message;
  fs::rename(folder_.file("kept"), table);
  EXPECT_GE(records(), 20u);
}

TEST_F(DamagedJournal, ADamagedMarkFallsBackOnItsOtherSlotAndBothRefuse) {
  fill(10);
  const fs::path mark = path() + ".mark";
  const std::string bytes = contents(mark);
  flip(mark, 20);
  {
    const auto opened = open(true);
    ASSERT_TRUE(opened) << opened.error().message;
  }
  flip(mark, 4096 + 20);
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::record_damaged);
  EXPECT_NE(refused.error().message.find(mark.string()), std::string::npos);
  fs::remove(mark);  // the operator's word: what is there, is all there is
  EXPECT_GE(records(), 40u);
}

// The other direction: no start is refused wrongly, whichever state of the mark a loss of power left behind.
TEST_F(DamagedJournal, AMarkThatIsOlderThanTheFilesRefusesNothing) {
  std::vector<std::string> marks;
  core::Sequence least = 0;
  for (int round = 0; round < 6; ++round) {
    fill(3);
    marks.push_back(contents(path() + ".mark"));
    const core::Sequence now = records();
    EXPECT_GT(now, least);
    least = now;
    marks.push_back(contents(path() + ".mark"));
  }
  for (const std::string& older : marks) {
    std::ofstream(path() + ".mark", std::ios::binary | std::ios::trunc) << older;
    EXPECT_EQ(records(), least);
  }
}

// A start writes what is in the log to tables and removes it. One that is killed before it writes anything
// leaves a mark that speaks of the last entry, and that was of a row that has come and gone.
TEST_F(DamagedJournal, AStartThatIsKilledBeforeItsFirstWriteIsNotTakenForAnOlderCopy) {
  const std::string key = view::in_flight_key(0, core::StreamId::named(core::StreamKind::test, "a"));
  {
    const auto database = open();
    ASSERT_TRUE(database) << database.error().message;
    for (const auto& value : {std::optional<std::string>("row"), std::optional<std::string>()}) {
      const std::vector<view::ViewChange> rows{{"a record", "of it"}, {key, value}};
      ASSERT_TRUE((*database)->write({&rows, 1}));
    }
  }
  for (int start = 1; start <= 3; ++start) {
    const auto database = open();
    ASSERT_TRUE(database) << "start " << start << ": " << database.error().message;
  }
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
  fill_and_close(10);                                         // so that all of the log is marked
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

// FR-88: a copy of the files made while they are written has an older MANIFEST and mark beside newer logs.
TEST_F(DamagedJournal, ACopyWhoseMiddleIsMissingRefusesToOpen) {
  fill(10);
  const fs::path lost = log();
  fs::copy(path(), folder_.file("copy"), fs::copy_options::recursive);
  fs::copy(path() + ".mark", folder_.file("copy.mark"));
  fill(10);  // opening has made a table of the first log
  ASSERT_FALSE(fs::exists(lost));
  fs::remove(fs::path(folder_.file("copy")) / lost.filename());
  fs::copy(log(), fs::path(folder_.file("copy")) / log().filename());
  for (const bool read_only : {true, false}) {
    const auto refused = view::Database::open({.path = folder_.file("copy"), .read_only = read_only});
    ASSERT_FALSE(refused) << "the middle of the history is gone";
    EXPECT_EQ(refused.error().code, base::Code::record_damaged);
    EXPECT_NE(refused.error().message.find(lost.filename().string()), std::string::npos)
        << refused.error().message;
  }
}

// A kill in the middle of a flush leaves two logs that are needed: the end of the older one counts too.
// RocksDB takes a record whose length leads beyond the file for the end.
TEST_F(DamagedJournal, AChangedEndOfAnOlderLogRefusesToOpen) {
  fill(10);
  const fs::path older = log();
  const std::string copy = folder_.file("copy");
  fs::copy(path(), copy, fs::copy_options::recursive);
  fs::copy(path() + ".mark", copy + ".mark");
  fill(10);
  const fs::path newer = log();
  fs::copy(newer, fs::path(copy) / newer.filename());
  {
    view::DurableMark mark(copy + ".mark");
    ASSERT_TRUE(mark.read() && mark.begin_writing());
    view::DurablePoint point = *mark.point();
    point.log = std::stoull(newer.stem().string());
    point.log_bytes = used(newer);
    point.first_log = std::stoull(older.stem().string());
    ASSERT_TRUE(mark.move(point, true));
  }
  const fs::path changed = fs::path(copy) / older.filename();
  const std::string bytes = contents(changed);
  for (const std::uint64_t at : {used(changed) - 1, used(changed) - 1000, std::uint64_t{100}}) {
    flip(changed, at);
    const auto refused = view::Database::open({.path = copy});
    ASSERT_FALSE(refused) << "byte " << at;
    EXPECT_EQ(refused.error().code, base::Code::record_damaged);
    EXPECT_NE(refused.error().message.find(older.filename().string()), std::string::npos)
        << refused.error().message;
    flip(changed, at);
  }
  fs::resize_file(changed, used(changed) - 5);
  EXPECT_FALSE(view::Database::open({.path = copy}));
  // Whole, with the room at the end that a log has which nobody came to close.
  std::ofstream(changed, std::ios::binary) << bytes << std::string(100'000, '\0');
  const auto database = view::Database::open({.path = copy});
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_GE(read_ownership(view::RocksView(**database, 0), kMeta, 0)->last_sequence, 20U);
}

TEST_F(DamagedJournal, ASecondEngineIsToldWhoHoldsTheFolder) {
  const auto first = open();
  ASSERT_TRUE(first);
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::Code::folder_locked);
  EXPECT_NE(second.error().message.find(path()), std::string::npos);
}

TEST_F(DamagedJournal, ALockFileThatCannotBeOpenedIsTheDisksMatterAndNobodyElses) {
  fs::create_directories(path() + "/LOCK");
  const auto database = open();
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, base::Code::io_error) << database.error().message;
  EXPECT_NE(database.error().message.find(path()), std::string::npos);
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
