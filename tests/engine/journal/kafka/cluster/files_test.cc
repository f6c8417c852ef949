// J29, V2: what the client's settings name can be read with the rights that the engine has when it is read.
#include "engine/journal/kafka/cluster/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/data_folder.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::journal::kafka::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(ClientFiles, APrivateKeyIsTakenFromItsFileAndTheOthersAreNamed) {
  const tests::support::TempFolder folder;
  const std::string key = folder.file("key");
  ASSERT_TRUE(base::write_whole_file(key, "the key's text"));
  Settings settings{.client = {{"ssl.key.location", key},
                               {"ssl.ca.location", "/ca"},
                               {"ssl.certificate.location", "/certificate"},
                               {"ssl.crl.location", "probe"},
                               {"sasl.username", "/no/file"}}};
  ASSERT_TRUE(take_private_key(settings));
  EXPECT_FALSE(settings.client.contains("ssl.key.location"));
  EXPECT_EQ(settings.client["ssl.key.pem"], "the key's text");
  EXPECT_THAT(files_of(settings), UnorderedElementsAre("/ca", "/certificate"));
}

TEST(ClientFiles, AMissingOneIsNamedWithItsSetting) {
  Settings settings{.client = {{"ssl.key.location", "/nowhere/key"}}};
  const auto taken = take_private_key(settings);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, base::Code::file_unreadable);
  EXPECT_THAT(taken.error().message, AllOf(HasSubstr("ssl.key.location"), HasSubstr("/nowhere/key")));
  const auto checked = check_files({.client = {{"ssl.ca.location", "/nowhere/ca"}}});
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, AllOf(HasSubstr("ssl.ca.location"), HasSubstr("/nowhere/ca"),
                                             HasSubstr("No such file"), Not(HasSubstr("chmod"))));
}

TEST(ClientFiles, OneThatThisUidMayNotReadSaysWhatToDo) {
  const tests::support::TempFolder folder;
  const std::string certificate = folder.file("certificate");
  ASSERT_TRUE(base::write_whole_file(certificate, "x"));
  const Settings settings{.client = {{"ssl.certificate.location", certificate}}};
  EXPECT_TRUE(check_files(settings));
  ASSERT_EQ(chmod(certificate.c_str(), 0), 0);
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const auto checked = check_files(settings);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr(certificate), HasSubstr("chmod o+r"), HasSubstr("ssl.key.location")));
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka::cluster
