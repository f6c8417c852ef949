// Connections to the API when file descriptors run out: some are kept back, and accepting never ends.
#include "engine/api/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/socket_path.h"
#include "tests/support/raw_server.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::api {
namespace {

class Listening : public testing::Test {
 protected:
  Listening() { base::set_log_level(base::LogLevel::error); }
  void open(const std::string& tcp = "") {
    auto opened = Listener::open({.socket = path_, .tcp = tcp});
    ASSERT_TRUE(opened) << opened.error().message;
    listener_ = std::move(*opened);
    listener_->start([this](base::UniqueFd fd) {
      const std::lock_guard lock(mutex_);
      taken_.push_back(std::move(fd));
      changed_.notify_all();
    });
  }
  base::UniqueFd connect() {
    base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = base::SocketPath::make(path_);
    if (!fd || !address || ::connect(fd.get(), address->address(), address->size()) != 0) return {};
    return fd;
  }
  /// Waits for it.
  bool has_taken(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return taken_.size() >= count; });
  }
  /// The other side has closed it.
  static bool is_closed(const base::UniqueFd& fd) {
    char byte = 0;
    return read(fd.get(), &byte, 1) <= 0;
  }

  tests::support::TempFolder folder_;
  std::string path_ = folder_.file("s");
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<base::UniqueFd> taken_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(Listening, AConnectionIsHandedOnAndTheSocketFileGoesWithTheListener) {
  open();
  const auto connection = connect();
  ASSERT_TRUE(connection);
  EXPECT_TRUE(has_taken(1));
  listener_.reset();
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(Listening, AnOldSocketFileIsReplaced) {
  open();
  auto first = std::move(listener_);
  open();
  const auto connection = connect();
  ASSERT_TRUE(connection);
  EXPECT_TRUE(has_taken(1));
}

TEST_F(Listening, NearTheLimitConnectionsAreClosedAndSomeDescriptorsAreKeptBack) {
  open();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const base::UniqueFd lowest(dup(0));
  const rlimit few{.rlim_cur = static_cast<rlim_t>(lowest.get()) + 40, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<base::UniqueFd> connections;
  while (listener_->turned_away() == 0) {
    auto next = connect();
    ASSERT_TRUE(next) << "the listener used up everything";
    connections.push_back(std::move(next));
    if (connections.size() > 30) break;
    poll(nullptr, 0, 20);
  }
  EXPECT_GT(listener_->turned_away(), 0U);
  EXPECT_TRUE(is_closed(connections.back()));
  const base::UniqueFd journal(dup(0));
  EXPECT_TRUE(journal) << "nothing was kept back";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const std::size_t so_far = [&] {
    const std::lock_guard lock(mutex_);
    return taken_.size();
  }();
  const auto again = connect();
  ASSERT_TRUE(again);
  EXPECT_TRUE(has_taken(so_far + 1)) << "accepting has ended for good";
}

TEST_F(Listening, SilentConnectionsByTcpLeaveRoomForTheSocket) {  // ADV-C29
  std::uint16_t port = 0;
  tests::support::listen_on_loopback(port).reset();
  open("127.0.0.1:" + std::to_string(port));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const base::UniqueFd lowest(dup(0));
  const rlimit few{.rlim_cur = static_cast<rlim_t>(lowest.get()) + 80, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<tests::support::Peer> silent;
  while (listener_->turned_away() == 0 && silent.size() < 80) {
    silent.push_back(tests::support::connect_to(port));
    poll(nullptr, 0, 20);
  }
  EXPECT_GT(listener_->turned_away(), 0U);
  const std::size_t so_far = [&] {
    const std::lock_guard lock(mutex_);
    return taken_.size();
  }();
  EXPECT_TRUE(connect());
  EXPECT_TRUE(has_taken(so_far + 1)) << "the folder's owner is kept out";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(Listening, AnAddressThatIsTakenIsTold) {
  auto first = Listener::open({.socket = path_, .tcp = "127.0.0.1:0"});
  ASSERT_TRUE(first) << first.error().message;
  for (const char* wrong : {"127.0.0.1", "localhost:1", "127.0.0.1:70000", "", ":"}) {
    if (*wrong == '\0') continue;
    EXPECT_FALSE(Listener::open({.socket = folder_.file("other"), .tcp = wrong})) << wrong;
  }
}

}  // namespace
}  // namespace sandglass::engine::api
