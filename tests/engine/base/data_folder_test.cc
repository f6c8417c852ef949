#include "engine/base/data_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "engine/base/system_ports.h"

namespace sandglass::engine::base {
namespace {

class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sandglass-folder-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~DataFolderTest() override { std::filesystem::remove_all(root_); }

  std::string root_;
  SystemRandom random_;
};

TEST_F(DataFolderTest, ANewFolderIsPrivateAndHasItsKey) {
  const auto folder = DataFolder::open(root_ + "/deep/data", random_);
  ASSERT_TRUE(folder) << folder.error().message;
  struct stat info{};
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(stat(folder->file("keys/tenant").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(folder->tenant_key().value().size(), 32U);
  EXPECT_EQ(folder->id().size(), 16U);
}

// `--data /etc` by mistake: the rest of the machine still has to read it.
TEST_F(DataFolderTest, AFolderThatIsRefusedKeepsItsMode) {
  for (const char* name : {"/other", "/foreign"}) std::filesystem::create_directories(root_ + name);
  std::ofstream(root_ + "/other/passwd") << "";
  std::ofstream(root_ + "/foreign/format") << "something else\n";
  for (const char* name : {"/other", "/foreign"}) {
    ASSERT_EQ(chmod((root_ + name).c_str(), 0755), 0);
    EXPECT_FALSE(DataFolder::open(root_ + name, random_));
    (void)DataFolder::log_file(root_ + name);
    struct stat info{};
    ASSERT_EQ(stat((root_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0755U) << name;
  }
}

TEST_F(DataFolderTest, AFolderOfOursIsMadePrivate) {
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));
  ASSERT_EQ(chmod((root_ + "/d").c_str(), 0755), 0);
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));
  struct stat info{};
  ASSERT_EQ(stat((root_ + "/d").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

// What an operator or an interrupted first start leaves: a configuration, the log, the supervisor's lock.
TEST_F(DataFolderTest, AFolderThatIsOnlyPreparedIsTaken) {
  std::filesystem::create_directories(root_ + "/d/log");
  for (const char* name : {"/d/sandglass.yaml", "/d/supervisor.lock"}) std::ofstream(root_ + name) << "";
  const auto opened = DataFolder::open(root_ + "/d", random_);
  EXPECT_TRUE(opened) << opened.error().message;
}

TEST_F(DataFolderTest, OpeningAgainKeepsKeyAndId) {
  const auto first = DataFolder::open(root_ + "/d", random_).value();
  const auto second = DataFolder::open(root_ + "/d", random_).value();
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(first.tenant_key().value(), second.tenant_key().value());
  EXPECT_EQ(DataFolder::open_read_only(root_ + "/d").value().id(), first.id());
}

// E16: another version is refused and nothing is changed.
TEST_F(DataFolderTest, AFolderOfAnotherVersionIsRefused) {
  std::filesystem::create_directory(root_ + "/d");
  std::ofstream(root_ + "/d/format") << "sandglass-data 999\n";
  const auto opened = DataFolder::open(root_ + "/d", random_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::folder_version);
  EXPECT_NE(opened.error().message.find("has format 999"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/d/keys"));
  EXPECT_EQ(DataFolder::open_read_only(root_ + "/d").error().code, Code::folder_version);
}

TEST_F(DataFolderTest, AFolderThatLostItsFormatFileIsNotTakenForANewOne) {
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));
  std::filesystem::remove(root_ + "/d/format");
  EXPECT_EQ(DataFolder::open(root_ + "/d", random_).error().code, Code::folder_version);
}

// ADV-F6: what is missing or damaged is told, never made anew beside what was bound to it.
TEST_F(DataFolderTest, ALostKeyIsNotReplacedUnderAJournalAndADamagedIdIsRefused) {
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));
  std::filesystem::create_directory(root_ + "/d/journal");
  std::ofstream(root_ + "/d/journal/CURRENT") << "MANIFEST-000001\n";
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));
  std::filesystem::rename(root_ + "/d/keys/tenant", root_ + "/key");
  const auto without = DataFolder::open(root_ + "/d", random_);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Code::record_damaged);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/d/keys/tenant"));
  std::filesystem::rename(root_ + "/key", root_ + "/d/keys/tenant");
  ASSERT_TRUE(DataFolder::open(root_ + "/d", random_));

  std::ofstream(root_ + "/d/id") << "../../../../etc/";
  EXPECT_EQ(DataFolder::open(root_ + "/d", random_).error().code, Code::record_damaged);
  EXPECT_EQ(DataFolder::open_read_only(root_ + "/d").error().code, Code::record_damaged);
}

TEST_F(DataFolderTest, AFileInItsPlaceIsAnError) {
  std::ofstream(root_ + "/d") << "x";
  const auto opened = DataFolder::open(root_ + "/d", random_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::io_error);
  EXPECT_NE(opened.error().message.find("/d is not a folder"), std::string::npos) << opened.error().message;
  EXPECT_EQ(DataFolder::open_read_only(root_ + "/none").error().code, Code::not_found);
}

TEST_F(DataFolderTest, AFolderThatHoldsOtherThingsIsNotTaken) {
  std::filesystem::create_directory(root_ + "/home");
  std::ofstream(root_ + "/home/.profile") << "PATH=/bin\n";
  for (const auto code : {DataFolder::open(root_ + "/home", random_).error().code,
                          DataFolder::log_file(root_ + "/home").error().code}) {
    EXPECT_EQ(code, Code::folder_version);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_ + "/home"), {}), 1);
  // A configuration may be there first.
  std::filesystem::create_directory(root_ + "/d");
  std::ofstream(root_ + "/d/sandglass.yaml") << "limits: {sandboxes: 3}\n";
  EXPECT_EQ(DataFolder::log_file(root_ + "/d").value(), root_ + "/d/log/sandglassd.log");
  EXPECT_TRUE(DataFolder::open(root_ + "/d", random_));
}

TEST_F(DataFolderTest, ALinkIsReadOnlyByWhoTrustsIt) {
  std::ofstream(root_ + "/secret") << "x";
  std::filesystem::create_symlink(root_ + "/secret", root_ + "/token");
  EXPECT_EQ(read_whole_file(root_ + "/token", 9).value(), "x");
  EXPECT_EQ(read_whole_file(root_ + "/token", 9, Links::refuse).error().code, Code::file_unreadable);
}

TEST_F(DataFolderTest, ALockIsHeldOnceAndNamesItsHolder) {
  auto held = FileLock::take(root_ + "/lock");
  ASSERT_TRUE(held);
  const auto second = FileLock::take(root_ + "/lock");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::folder_locked);
  EXPECT_NE(second.error().message.find("process " + std::to_string(getpid())), std::string::npos);
  held = FileLock::take(root_ + "/other");
  EXPECT_TRUE(FileLock::take(root_ + "/lock"));
}

}  // namespace
}  // namespace sandglass::engine::base
