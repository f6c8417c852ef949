// A sandbox ends with its keeper also if that ended while init had no death signal.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/init/contained.h"

namespace sandglass::sandbox_runtime::init {
namespace {

using engine::base::UniqueFd;

constexpr int kWentOn = 42;

/// How a process ends that acts as its sandbox's user for a moment, in the place of init.
int status_after_file_access(int keeper_fd) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    {
      const AsUser user(Identity{.change = true, .keeper_fd = keeper_fd});
    }
    _exit(kWentOn);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(KeeperWatch, AKeeperThatEndedWithoutASignalIsFollowed) {  // V1, FR-147
  const pid_t keeper = fork();
  if (keeper == 0) {
    pause();
    _exit(0);
  }
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, keeper, 0)));
  ASSERT_TRUE(watch.valid());
  int status = status_after_file_access(watch.get());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kWentOn) << "the keeper lives";
  kill(keeper, SIGKILL);
  pollfd ended{watch.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ended, 1, 10'000), 1);
  status = status_after_file_access(watch.get());
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == kWentOn) << "the keeper had ended";
  waitpid(keeper, nullptr, 0);
  status = status_after_file_access(-1);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kWentOn) << "without a keeper";
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::init
