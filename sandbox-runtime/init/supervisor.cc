#include "sandbox-runtime/init/supervisor.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sandglass::sandbox_runtime::init {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;

namespace {

constexpr std::size_t kRingMemory = std::size_t{24} << 20;
constexpr std::size_t kMaxQueued = std::size_t{1} << 20;
constexpr int kPacketsPerTurn = 64;
constexpr std::size_t kRemoverCalls = 500;  // a few milliseconds

// what an epoll event is about: the exec's number above, this below
enum Watch : std::uint64_t { control = 0, child = 1, out = 2, err = 3, in = 4, minder = 5 };
constexpr std::uint64_t tag_of(std::uint64_t number, Watch what) {
  return number << 3 | what;
}

MonotonicNs now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)),
      writer_(kMaxQueued),
      budget_{kRingMemory},
      remover_(options_.spawn.identity) {}

Status Supervisor::start() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &mask, nullptr) != 0) return fail(Code::io_error, "blocking SIGCHLD");
  signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!signals_ || !epoll_) return fail(Code::io_error, std::string("epoll: ") + std::strerror(errno));
  epoll_event event{EPOLLIN, {.u64 = tag_of(0, control)}};
  epoll_event child_event{EPOLLIN, {.u64 = tag_of(0, child)}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, options_.control_fd, &event) != 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, signals_.get(), &child_event) != 0) {
    return fail(Code::io_error, std::string("epoll_ctl: ") + std::strerror(errno));
  }
  send(encode(frames::Hello{}));
  return {};
}

Status Supervisor::run() {
  Status status = start();
  while (status && state_) status = turn();
  return status ? state_ : status;
}

/// One pass: settle what time decides, send, wait, and do what is ready.
Status Supervisor::turn() {
  MonotonicNs now = now_ns();
  std::optional<MonotonicNs> wake;
  for (auto& [number, exec] : execs_) {
    const auto when = exec->settle(now);
    if (when && (!wake || *when < *wake)) wake = when;
  }
  send_what_is_due();
  if (!state_) return state_;
  for (auto& [number, exec] : execs_) watch(*exec);
  const bool busy = std::ranges::any_of(transfers_, [](const auto& item) {
    const Transfer& transfer = item.second;
    return transfer.get && transfer.sent < transfer.window;
  });
  const bool want_write = !writer_.empty();
  if (want_write != control_wants_write_) {
    epoll_event event{EPOLLIN | (want_write ? EPOLLOUT : 0u), {.u64 = tag_of(0, control)}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, options_.control_fd, &event);
    control_wants_write_ = want_write;
  }
  int timeout =
      wake ? static_cast<int>(std::clamp<MonotonicNs>((*wake - now) / 1'000'000 + 1, 1, 60'000)) : -1;
  if ((busy && !want_write) || !remover_.idle()) timeout = 0;
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), timeout);
  if (count < 0 && errno != EINTR)
    return fail(Code::io_error, std::string("epoll_wait: ") + std::strerror(errno));
  now = now_ns();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    const auto what = static_cast<Watch>(tag & 7);
    if (what == control) {
      if (auto status = receive(); !status) return status;
    } else if (what == child) {
      signalfd_siginfo info;
      while (read(signals_.get(), &info, sizeof info) > 0) {
      }
      reap();
    } else if (Exec* exec = find(tag >> 3)) {
      if (what == out) exec->read_output(1, now);
      if (what == err) exec->read_output(2, now);
      if (what == in) exec->write_stdin();
      if (what == minder) exec->read_minder(now);
    }
  }
  if (!remover_.idle()) remover_.step(kRemoverCalls);
  return {};
}

Status Supervisor::receive() {
  for (int packets = 0; packets < kPacketsPerTurn; ++packets) {
    auto received = frames::receive_packet(options_.control_fd, buffer_);
    if (!received) return std::unexpected(received.error());
    if (received->what == frames::Receive::again) return {};
    if (received->what == frames::Receive::closed)
      return fail(Code::unavailable, "the host closed the connection");
    if (auto status = handle(received->packet); !status) return status;
  }
  return {};
}

template <class Message>
Status Supervisor::handle_as(std::string_view packet) {
  const auto message = frames::decode<Message>(packet);
  if (!message) return fail(Code::frame_malformed, "a packet from the host is malformed");
  on(*message);
  return {};
}

Status Supervisor::handle(std::string_view packet) {
  switch (static_cast<frames::PacketType>(packet[0])) {
    case frames::PacketType::reset:
      return handle_as<frames::Reset>(packet);
    case frames::PacketType::exec_ready:
      return handle_as<frames::ExecReady>(packet);
    case frames::PacketType::exec_start:
      return handle_as<frames::ExecStart>(packet);
    case frames::PacketType::exec_go:
      return handle_as<frames::ExecGo>(packet);
    case frames::PacketType::stdin_data:
      return handle_as<frames::StdinData>(packet);
    case frames::PacketType::window:
      return handle_as<frames::Window>(packet);
    case frames::PacketType::signal:
      return handle_as<frames::Signal>(packet);
    case frames::PacketType::forget:
      return handle_as<frames::Forget>(packet);
    case frames::PacketType::ping:
      return handle_as<frames::Ping>(packet);
    case frames::PacketType::put_open:
      return handle_as<frames::PutOpen>(packet);
    case frames::PacketType::get_open:
      return handle_as<frames::GetOpen>(packet);
    case frames::PacketType::transfer_cancel:
      return handle_as<frames::TransferCancel>(packet);
    case frames::PacketType::attach:
      return handle_as<frames::Attach>(packet);
    case frames::PacketType::chunk:
      return handle_as<frames::Chunk>(packet);
    case frames::PacketType::ack:
      return handle_as<frames::Ack>(packet);
    default:
      return fail(Code::frame_malformed, "a packet from the host has an unknown type");
  }
}

void Supervisor::send(std::string packet) {
  if (auto status = writer_.push(std::move(packet)); !status) state_ = status;
}

/// Replies first; output and trees only while the socket takes them, so that nothing piles up here.
void Supervisor::send_what_is_due() {
  for (auto& [number, exec] : execs_) {
    if (exec->take_end_due()) send(encode(exec->end()));
  }
  while (state_) {
    auto all_out = writer_.flush(options_.control_fd);
    if (!all_out) state_ = std::unexpected(all_out.error());
    if (!all_out || !*all_out || !send_one()) return;
  }
}

bool Supervisor::send_one() {
  const MonotonicNs now = now_ns();
  // round robin: start after the one that had its turn
  auto at = execs_.upper_bound(turn_of_);
  for (std::size_t i = 0; i < execs_.size(); ++i) {
    if (at == execs_.end()) at = execs_.begin();
    if (auto packet = at->second->next_output(now)) {
      turn_of_ = at->first;
      send(std::move(*packet));
      return true;
    }
    ++at;
  }
  return send_transfer_piece();
}

void Supervisor::reap() {
  while (true) {
    int status = 0;
    const pid_t pid = options_.processes.ended(status);
    if (pid <= 0) return;
    if (ready_ && ready_->child.pid == pid) {
      ready_.reset();
      continue;
    }
    const MonotonicNs now = now_ns();
    for (auto& [number, exec] : execs_) {
      if (exec->minder() == pid) {
        // Somebody has ended it: whose its processes are can no longer be told, so no command goes on.
        if (!exec->minder_ended(status, now)) kill_everything();
      } else if (exec->pid() == pid && exec->minder() < 0) {
        exec->process_ended(status, now);
      }
    }
  }
}

void Supervisor::set_watch(int fd, bool& watched, bool wanted, std::uint64_t tag, std::uint32_t events) {
  if (fd < 0) {
    watched = false;
    return;
  }
  if (watched == wanted) return;
  epoll_event event{events, {.u64 = tag}};
  // out of the set while nothing is wanted: a hang-up would be reported again and again
  epoll_ctl(epoll_.get(), wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
  watched = wanted;
}

void Supervisor::watch(Exec& exec) {
  const std::uint64_t number = exec.number();
  for (int stream : {1, 2}) {
    set_watch(exec.output_fd(stream), exec.stream(stream).watched, exec.wants_output(stream),
              tag_of(number, stream == 1 ? out : err), EPOLLIN);
  }
  set_watch(exec.stdin_fd(), exec.stdin_watched, exec.wants_stdin(), tag_of(number, in), EPOLLOUT);
  set_watch(exec.minder_fd(), exec.minder_watched, exec.minder_fd() >= 0, tag_of(number, minder), EPOLLIN);
}

Exec* Supervisor::find(std::uint64_t number) {
  const auto found = execs_.find(number);
  return found == execs_.end() ? nullptr : found->second.get();
}

bool Supervisor::any_live() const {
  return std::ranges::any_of(execs_, [](const auto& item) { return item.second->live(); });
}

}  // namespace sandglass::sandbox_runtime::init
