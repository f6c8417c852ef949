// What the host says to init (process 1 of a sandbox), through its socket and its loop; commands and trees
// are real but for the processes (ADV-B26, FR-136). Input: packets with their length before them. No packet,
// in no order, ends init otherwise than by closing the connection.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>

#include "engine/base/check.h"
#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/init/supervisor.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::sandbox_runtime;
using sandglass::engine::base::Code;
using sandglass::engine::base::UniqueFd;

/// The folder that trees go to; made once, emptied after inputs that may have written.
class Workspace {
 public:
  Workspace() {
    char name[] = "/tmp/sandglass-fuzz-XXXXXX";
    SG_CHECK(mkdtemp(name) != nullptr, "no temporary folder");
    folder_ = name;
    reset();
  }
  ~Workspace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void reset() {
    std::filesystem::remove_all(path());
    std::filesystem::create_directories(path() + "/src/deep");
    std::filesystem::create_symlink("src", path() + "/link");
  }
  std::string path() const { return folder_ + "/workspace"; }

 private:
  std::string folder_;
};

/// Children that are only pipes. Their number decides what becomes of one: it cannot start, it ends at once
/// with output, or it lives on.
class Children {
 public:
  sandglass::engine::base::Result<init::Spawned> start(std::uint64_t number) {
    int in[2], out[2], err[2], command[2], failure[2];
    for (int* pair : {in, out, err, command, failure})
      SG_CHECK(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0, "pipe2");
    init::Spawned made{++last_pid_,      UniqueFd(in[1]),      UniqueFd(out[0]),
                       UniqueFd(err[0]), UniqueFd(command[1]), UniqueFd(failure[0])};
    const UniqueFd ends[] = {UniqueFd(in[0]), UniqueFd(out[1]), UniqueFd(err[1]), UniqueFd(command[0]),
                             UniqueFd(failure[1])};
    const auto low = static_cast<int>(number & 0xff);
    const std::string text(static_cast<std::size_t>(low), 'o');
    (void)!write(out[1], text.data(), text.size());
    (void)!write(err[1], text.data(), text.size() / 2);
    if (low % 4 == 1) {
      const init::StartFailure why{low / 4, 2};
      (void)!write(failure[1], &why, sizeof why);
    }
    if (low % 4 == 1 || low % 4 == 2) {
      ended_.emplace_back(last_pid_, low % 4 == 2 ? low << 8 : 9);
      raise(SIGCHLD);
    }
    return made;
  }
  pid_t ended(int& status) {
    if (ended_.empty()) return 0;
    const auto [pid, how] = ended_.front();
    ended_.pop_front();
    status = how;
    return pid;
  }
  int signal(pid_t pid, int number) {
    if (number == SIGKILL && pid != -1) {
      ended_.emplace_back(std::abs(pid), SIGKILL);
      raise(SIGCHLD);
    }
    return 0;
  }

 private:
  pid_t last_pid_ = 1'000'000'000;  // of no process
  std::deque<std::pair<pid_t, int>> ended_;
};

/// Absolute paths lead to the machine that the fuzzer runs on.
bool stays_inside(std::string_view packet) {
  if (const auto put = frames::decode<frames::PutOpen>(packet)) return !put->path.starts_with('/');
  if (const auto get = frames::decode<frames::GetOpen>(packet)) return !get->path.starts_with('/');
  return true;
}

}  // namespace

FUZZ_TARGET(init_packets) {
  static Workspace workspace;
  int ends[2];
  SG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
  const UniqueFd host(ends[0]), own(ends[1]);
  bool wrote = false;
  sandglass::tests::fuzz::Input in(input);
  while (!in.empty()) {
    const auto packet = in.piece();
    if (packet.empty() || !stays_inside(packet)) continue;
    wrote = wrote || static_cast<frames::PacketType>(packet[0]) == frames::PacketType::put_open;
    if (send(host.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
  }
  shutdown(host.get(), SHUT_WR);
  Children children;
  {
    init::SupervisorOptions options{.control_fd = own.get(), .process_one = false};
    options.spawn.workspace = workspace.path();
    options.processes.start = [&](std::uint64_t number, bool, const auto&) { return children.start(number); };
    options.processes.signal = [&](pid_t pid, int number) { return children.signal(pid, number); };
    options.processes.ended = [&](int& status) { return children.ended(status); };
    init::Supervisor supervisor(options);
    const auto ended = supervisor.run();
    SG_CHECK(!ended, "it ends although nobody said so");
    const Code code = ended.error().code;
    SG_CHECK(code == Code::frame_malformed || code == Code::unavailable || code == Code::overloaded,
             "it ends with another error: " + ended.error().message);
  }
  if (wrote) workspace.reset();
}
