// What a command can see, call and write (adversarial.md A and B).
#include <algorithm>
#include <set>
#include <sstream>

#include "tests/security/attack_rig.h"

namespace sandglass::tests {
namespace {

using IsolationTest = AttackTest;

TEST_F(IsolationTest, TheKernelsSurfaceIsClosed) {
  // ADV-A18, A21, A29, A30, B2, B3, B9, B10, B11, B13, B14, B15, B17, B19, B23, B25, FR-157
  expect_held({"kernel"});
}

TEST_F(IsolationTest, ForeignEntriesEndTheProcess) {  // ADV-B14
  expect_held({"foreign"});
}

TEST_F(IsolationTest, WhatTheMachineHasOnceForAllIsNotTaken) {  // ADV-A13, B3, B13, B17, E10
  expect_held({"machine"});
}

TEST_F(IsolationTest, TheBaseTakesNothingAndTellsNothing) {
  // ADV-A6, A10, A15, A17, A18, A22, A23, FR-154
  expect_held({"files"});
}

TEST_F(IsolationTest, NoCommandStartsWhereSomebodysDescriptorLeads) {  // ADV-A17
  ASSERT_EQ(
      shell("for i in 3 4 5 6 7 8; do ln -s /proc/self/fd/$i way$i; done; ln -s /proc/1/cwd up")->exit_code,
      0);
  std::vector<std::string> folders = {"/proc/1/cwd",         "/proc/1/root", "/proc/self/cwd",
                                      "/proc/self/root/usr", "up",           ".."};
  for (const char* number : {"3", "4", "5", "6", "7", "8"}) {
    folders.push_back(std::string("/proc/self/fd/") + number);
    folders.push_back(std::string("/proc/thread-self/fd/") + number + "/..");
    folders.push_back(std::string("way") + number);
    folders.push_back(std::string("/workspace/way") + number);
  }
  for (const std::string& folder : folders) {
    auto wanted = rig().shell("echo begun; ls -ld .");
    wanted.cwd = folder;
    const auto result = rig().exec(box_, wanted);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_NE(result->exit_code, 0) << folder;
    EXPECT_EQ(result->out, "") << folder;
  }
  EXPECT_EQ(shell("pwd")->out, "/workspace\n");
}

TEST_F(IsolationTest, NothingOfTheMachineIsInside) {  // V6, ADV-D1, D13
  const std::string half =
      canary().substr(0, canary().size() - 2);  // the whole word would be found in the arguments
  expect_held({"find", half});
  // the search itself works: it finds what is inside
  ASSERT_TRUE(shell("echo " + canary() + " > /tmp/inside").has_value());
  const auto found = attack({"find", half});
  EXPECT_EQ(found->exit_code, 99) << describe(found);
  EXPECT_NE(found->out.find("/tmp/inside"), std::string::npos) << describe(found);
}

TEST_F(IsolationTest, TheEnvironmentIsTheRuntimesOwn) {  // ADV-D13
  const auto result = attack({"env"});
  std::istringstream lines(result->out);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find('='));
    EXPECT_FALSE(name.starts_with("LD_") || name.starts_with("SANDGLASS_") || name.starts_with("AWS_") ||
                 name.starts_with("GIT_SSH") || name == "BASH_ENV" || name == "PYTHONPATH" ||
                 name == "SSH_AUTH_SOCK")
        << line;
  }
  EXPECT_NE(result->out.find("HOME=/home/sandbox\n"), std::string::npos);
}

TEST_F(IsolationTest, AFreshSandboxIsEmpty) {  // ADV-A27, E10
  const auto fresh = rig().make();
  const auto result = rig().exec(
      fresh, rig().shell("ls -A /workspace /home/sandbox /tmp /dev/shm /var /run | grep -v ':$' | grep ."));
  EXPECT_EQ(result->out, "") << describe(result);
}

TEST_F(IsolationTest, ObjectsOfInterprocessCommunicationAreNobodyElses) {  // ADV-B18
  EXPECT_TRUE(attack({"queues"})->out.starts_with("111 "));
  const auto other = make();
  const auto result = rig().exec(other, request({"queues", "look"}));
  EXPECT_EQ(result->exit_code, 0) << describe(result);
  EXPECT_TRUE(rig().destroy(box_).has_value());
}

TEST_F(IsolationTest, DescriptorsAreBoundedAlsoOnTheirWay) {  // ADV-B17, B22
  const auto result = attack({"fds"}, {.wall_ms = 20'000});
  int opened = 0;
  int sent = 0;
  std::string error;
  std::istringstream(result->out) >> opened >> error >> sent;
  const auto most = static_cast<int>(HostRig::small_template().limits.open_files.value);
  EXPECT_EQ(error, "EMFILE") << describe(result);
  EXPECT_LE(opened, most);
  EXPECT_GT(opened, 16);
  EXPECT_LE(sent, 2 * most) << describe(result);
}

}  // namespace
}  // namespace sandglass::tests
