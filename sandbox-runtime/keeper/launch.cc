#include "sandbox-runtime/keeper/launch.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "sandbox-runtime/provider/linux/namespaces.h"
#include "sandbox-runtime/provider/linux/packet.h"
#include "sandbox-runtime/provider/linux/plan.h"

namespace sandglass::sandbox_runtime::keeper {
namespace {

using engine::base::UniqueFd;
using namespace provider::linux_jail;  // NOLINT: this file is the other half of that folder

constexpr int kLaunchTimeoutMs = 10'000;

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Waits for the child's next packet. False: closed, broken or too late.
bool next_talk(int talk, std::int64_t deadline_ms, Talk& said, std::vector<UniqueFd>& fds, bool& closed) {
  closed = false;
  const std::int64_t left = deadline_ms - now_ms();
  pollfd waiting{talk, POLLIN, 0};
  if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  const ssize_t size = receive_packet(talk, &said, sizeof said, fds);
  closed = size == 0;
  return size == sizeof said;
}

bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

/// Serves the child until init was executed. 0 or errno, with the stage.
int accompany(int talk, bool rootless, std::uint32_t uid_base, LaunchResult& result) {
  const std::int64_t deadline = now_ms() + kLaunchTimeoutMs;
  for (;;) {
    Talk said;
    std::vector<UniqueFd> fds;
    bool closed = false;
    if (!next_talk(talk, deadline, said, fds, closed)) {
      result.stage = Stage::handshake;
      if (!closed) return ETIMEDOUT;
      return has_ended(result.pid) ? EPIPE : 0;
    }
    result.stage = said.stage;
    switch (said.kind) {
      case TalkKind::need_maps: {
        result.stage = Stage::maps;
        if (const int error = write_maps(result.pid, rootless, uid_base)) return error;
        if (::send(talk, "m", 1, MSG_NOSIGNAL) != 1) return errno;
        break;
      }
      case TalkKind::listener:
        if (fds.size() != 1) return EPROTO;
        result.listener = std::move(fds[0]);
        break;
      case TalkKind::failed:
        return said.error != 0 ? said.error : EPROTO;
    }
  }
}

[[noreturn]] void run_child(const PlanView& plan, JailFds fds, int talk) {
  fds.talk = talk;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
  become_init(plan, fds);
}

}  // namespace

LaunchResult launch_jail(int plan_fd, JailFds fds, int leaf) {
  LaunchResult result;
  const MappedPlan mapped(plan_fd);
  if (!mapped.view()) return {.error = EINVAL, .stage = Stage::plan};
  const PlanView& plan = *mapped.view();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return {.error = errno, .stage = Stage::handshake};
  }
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  const bool rootless = plan.has(kPlanRootless);
  result.pid = clone_child(rootless, fds.gate < 0, leaf, result.pidfd);
  if (result.pid < 0) return {.error = errno, .stage = Stage::clone};
  if (result.pid == 0) run_child(plan, fds, theirs.get());
  theirs.reset();
  result.error = accompany(ours.get(), rootless, plan.header().uid_base, result);
  if (result.error != 0) {
    ::kill(result.pid, SIGKILL);
    ::waitpid(result.pid, nullptr, 0);
  } else {
    result.stage = Stage::none;
  }
  return result;
}

}  // namespace sandglass::sandbox_runtime::keeper
