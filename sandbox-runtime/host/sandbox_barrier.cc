// How an exec's child comes under its limits: its group is made, the child presents itself at the barrier and
// enters, and only then may it become the command (V5). Where there are groups, this is done ahead for one
// child, which waits for the next exec.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/host/convert.h"
#include "sandbox-runtime/host/sandbox.h"
#include "sandbox-runtime/host/sandbox_tell.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Error;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {

constexpr int kPacketsPerPass = 64;

/// See launcher.h.
struct BarrierWord {
  std::uint64_t number = 0;
  std::uint64_t word = 1;
};

}  // namespace

/// The child of the exec to come.
void Sandbox::make_ready() {
  if (rootless_ || ready_ || !alive()) return;
  const std::uint64_t number = ++last_number_;
  Ready ready;
  ready.number = number;
  ready_ = std::move(ready);
  tell(frames::ExecReady{number});
  // init forks meanwhile
  make_group(number, exec_limits({}, spec_.tmpl.limits));
  SG_CRASH_POINT("host.exec_readied");
}

bool Sandbox::is_ready(std::uint64_t number) const {
  return ready_ && ready_->number == number;
}

/// Of an exec's child, or of the one that waits for the next exec. None: nobody is expected at the barrier.
Sandbox::Passage* Sandbox::find_passage(std::uint64_t number) {
  if (is_ready(number)) return &ready_->passage;
  Exec* exec = find_exec(number);
  return exec == nullptr ? nullptr : &exec->passage;
}

/// The next exec makes its own.
void Sandbox::forget_ready() {
  if (!ready_) return;
  tell(frames::ExecGo{ready_->number, false});
  enqueue({false, [this, number = ready_->number] { (void)around_.launcher.remove_exec(spec_.id, number); },
           [] {}});
  ready_.reset();
}

/// Whether the child that is ready is under these limits already.
bool Sandbox::has_usual_limits(const provider::ExecLimits& limits) const {
  const provider::ExecLimits usual = exec_limits({}, spec_.tmpl.limits);
  return limits.memory_bytes == usual.memory_bytes && limits.pids == usual.pids;
}

void Sandbox::make_group(std::uint64_t number, const provider::ExecLimits& limits) {
  auto made = std::make_shared<Result<UniqueFd>>(UniqueFd());
  enqueue({false,
           [this, number, limits, made] { *made = around_.launcher.make_exec(spec_.id, number, limits); },
           [this, number, made] {
             if (Exec* exec = find_exec(number)) return on_group(*exec, std::move(*made));
             if (!is_ready(number)) return;
             if (!*made) return forget_ready();
             ready_->memory_event = std::move(**made);
             ready_->passage.grouped = true;
           }});
}

void Sandbox::on_group(Exec& exec, Result<UniqueFd> made) {
  if (state_ != State::live) return;
  if (made) {
    watch_memory(exec, std::move(*made));
    return set_limits(exec.number);
  }
  tell(frames::ExecGo{exec.number, false});
  around_.outbox.failed(std::exchange(exec.follower, {}), made.error());
  stop_watching(exec);
  execs_.erase(exec.number);
}

void Sandbox::watch_memory(Exec& exec, UniqueFd event) {
  if (!event) return;
  exec.memory_event = std::move(event);
  exec.memory_watch = around_.loop.watch(exec.memory_event.get(), EPOLLIN,
                                         [this, number = exec.number](std::uint32_t) { on_memory(number); });
}

/// What the child that was ready has is its exec's now.
void Sandbox::take_ready(Exec& exec) {
  Ready ready = std::move(*std::exchange(ready_, std::nullopt));
  exec.passage = ready.passage;
  watch_memory(exec, std::move(ready.memory_event));
}

/// Init was told that the child has passed. If it has lost that one, another comes to the barrier.
void Sandbox::started_at_once(Exec& exec) {
  exec.passage = {.grouped = true, .limited = true};
  start_clocks(exec, 0);
}

/// The group may still have the limits of the template.
void Sandbox::set_limits(std::uint64_t number) {
  auto limited = std::make_shared<Status>();
  enqueue({false,
           [this, number, limited] {
             const Exec* exec = find_exec(number);
             if (exec != nullptr && !has_usual_limits(exec->limits))
               *limited = around_.launcher.limit_exec(spec_.id, number, exec->limits);
           },
           [this, number, limited] {
             Exec* exec = find_exec(number);
             if (exec == nullptr) return;
             if (!*limited) return refuse_to_go(number, limited->error());
             exec->passage.grouped = exec->passage.limited = true;
             go_on(*exec);
           }});
}

/// A child presents itself, or has entered its groups; the kernel says which process it is.
void Sandbox::on_barrier() {
  // an init that somebody has taken over may send without end: others have their turn in between
  for (int packets = 0; packets < kPacketsPerPass && barrier_; ++packets) {
    BarrierWord said;
    iovec part{&said, sizeof said};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + 64> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(barrier_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    pollfd other_end{barrier_.get(), POLLRDHUP, 0};
    if (got == 0 && ::poll(&other_end, 1, 0) == 0) continue;  // an empty packet
    if (got <= 0) {
      // its other end goes with the last process; the pidfd tells the rest
      around_.loop.unwatch(std::exchange(barrier_watch_, 0));
      return;
    }
    pid_t pid = 0;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
      if (item->cmsg_level != SOL_SOCKET) continue;
      if (item->cmsg_type == SCM_RIGHTS) {  // nobody sends any in good faith (ADV-B22)
        const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
          int fd;
          std::memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
          ::close(fd);
        }
      }
      if (item->cmsg_type != SCM_CREDENTIALS) continue;
      ucred credentials;
      std::memcpy(&credentials, CMSG_DATA(item), sizeof credentials);
      pid = credentials.pid;
    }
    if (pid > 0) at_barrier(said.number, pid, static_cast<std::size_t>(got));
  }
}

/// Each word once, and once more from a child that takes the place of one that has died. An init that was
/// taken over can send two processes into the exec's group with that; both are under its limits then (V5).
void Sandbox::at_barrier(std::uint64_t number, pid_t pid, std::size_t size) {
  Passage* passage = find_passage(number);
  if (passage == nullptr) return;
  constexpr int kTimes = 2;
  if (size == sizeof number && passage->placed < kTimes) {
    ++passage->placed;
    place(number, pid);
  } else if (size == sizeof(BarrierWord) && passage->entered < kTimes) {
    ++passage->entered;
    admit(number, pid);
  }
}

void Sandbox::place(std::uint64_t number, pid_t pid) {
  auto placed = std::make_shared<Status>();
  enqueue({false, [this, number, pid, placed] { *placed = around_.launcher.place(spec_.id, number, pid); },
           [this, number, placed] {
             if (!*placed) refuse_to_go(number, placed->error());
           }});
}

void Sandbox::refuse_to_go(std::uint64_t number, const Error& why) {
  if (is_ready(number)) return forget_ready();
  tell(frames::ExecGo{number, false});
  if (Exec* exec = find_exec(number)) around_.outbox.failed(std::exchange(exec->follower, {}), why);
}

/// It is under its limits.
void Sandbox::admit(std::uint64_t number, pid_t pid) {
  auto admitted = std::make_shared<Status>();
  enqueue({false,
           [this, number, pid, admitted] { *admitted = around_.launcher.admit(spec_.id, number, pid); },
           [this, number, admitted] {
             SG_CRASH_POINT("host.exec_placed");
             if (!*admitted) return refuse_to_go(number, admitted->error());
             if (Passage* passage = find_passage(number)) passage->admitted = true;
             if (Exec* exec = find_exec(number)) go_on(*exec);
           }});
}

/// Lets the child become its command once it is where it belongs and its limits are set.
void Sandbox::go_on(Exec& exec) {
  if (!exec.passage.admitted || !exec.passage.limited) return;
  const bool go = exec.reason == KillReason::none;
  tell(frames::ExecGo{exec.number, go});
  if (go && control_) start_clocks(exec, 0);
}

}  // namespace sandglass::sandbox_runtime::host
