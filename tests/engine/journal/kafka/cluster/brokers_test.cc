// The fixture that tests with real brokers stand on: what it says of a broker is so.
#include "tests/support/kafka/brokers.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/kafka/admin.h"

namespace sandglass::tests::support {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Brokers, AreSharedAndTakeTopicsWithSettings) {
  Brokers& brokers = Brokers::one();
  EXPECT_EQ(&brokers, &Brokers::one());
  Admin admin(brokers.bootstrap());
  const std::string topic = new_topic_name();
  EXPECT_NE(topic, new_topic_name());
  EXPECT_THAT(admin.create_topic(topic, 2, 1, {{"retention.ms", "-1"}}), IsEmpty());
  EXPECT_THAT(admin.create_topic(topic, 2, 1, {}), HasSubstr("already exists"));
  EXPECT_THAT(admin.create_topic(new_topic_name(), 1, 3, {}), HasSubstr("replication"));
  EXPECT_EQ(admin.leader(topic, 1), 1);
  EXPECT_THAT(admin.add_partitions(topic, 3), IsEmpty());
  EXPECT_THAT(admin.set_topic(topic, {{"cleanup.policy", "no such"}}), HasSubstr("cleanup.policy"));
  EXPECT_THAT(admin.delete_topic(topic), IsEmpty());
  EXPECT_THAT(admin.delete_topic(topic), HasSubstr("Unknown topic"));
}

TEST(Brokers, AreKilledAndComeBackWithWhatTheyStored) {
  Brokers& brokers = Brokers::one();
  const std::string topic = new_topic_name();
  EXPECT_THAT(Admin(brokers.bootstrap()).create_topic(topic, 1, 1, {}), IsEmpty());
  brokers.kill(1);
  EXPECT_FALSE(brokers.runs(1));
  // From a thread that ends: the broker lives on, as it belongs to the program.
  std::thread([&] { brokers.start(1); }).join();
  EXPECT_THAT(Admin(brokers.bootstrap()).create_topic(topic, 1, 1, {}), HasSubstr("already exists"));
  brokers.pause(1);
  brokers.resume(1);
  brokers.terminate(1);
  brokers.heal();
  EXPECT_THAT(Admin(brokers.bootstrap()).delete_topic(topic), IsEmpty());
}

/// The processes whose command line names this folder.
int processes_of(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words((std::istreambuf_iterator<char>(file)), {});
    if (words.contains(folder) && !std::filesystem::equivalent(entry.path(), "/proc/self")) ++count;
  }
  return count;
}

TEST(Brokers, DieWithATestProgramThatIsKilledAndTheirFolderIsDeletedByTheNext) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Brokers brokers(1);
    const std::string folder = brokers.folder();
    (void)!::write(ends[1], folder.data(), folder.size());
    ::close(ends[1]);
    ::pause();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string folder;
  for (char byte = 0; ::read(ends[0], &byte, 1) == 1;) folder += byte;
  ::close(ends[0]);
  EXPECT_EQ(processes_of(folder), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(folder));
  Brokers next(1);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(processes_of(folder), 0);
}

TEST(Brokers, OfThreeGoOnWithoutOne) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  const std::string topic = new_topic_name();
  ASSERT_THAT(admin.create_topic(topic, 1, 3, {}), IsEmpty());
  const int leader = admin.leader(topic);
  brokers.kill(leader);
  // The controller gives the partition to another once it misses the dead one.
  while (admin.leader(topic) == leader || admin.leader(topic) < 0) std::this_thread::yield();
  // The first client may go on waiting for a controller that was the dead one.
  Admin other(brokers.bootstrap());
  EXPECT_THAT(other.create_topic(new_topic_name(), 1, 2, {}), IsEmpty());
  brokers.heal();
  EXPECT_THAT(other.create_topic(new_topic_name(), 1, 3, {}), IsEmpty());
}

}  // namespace
}  // namespace sandglass::tests::support
