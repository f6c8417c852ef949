#include "sandbox-runtime/keeper/keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/keeper/groups.h"
#include "sandbox-runtime/keeper/launch.h"
#include "sandbox-runtime/provider/linux/packet.h"

namespace sandglass::sandbox_runtime::keeper {
namespace {

using engine::base::UniqueFd;
using provider::linux_jail::FdRole;
using provider::linux_jail::JailFds;
using provider::linux_jail::KeeperOp;
using provider::linux_jail::KeeperReply;
using provider::linux_jail::KeeperRequest;
using provider::linux_jail::kIdBytes;
using provider::linux_jail::kKeeperMagic;
using provider::linux_jail::kKeeperVersion;
using provider::linux_jail::kMaxRoles;
using provider::linux_jail::Stage;

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::string id_of(const KeeperRequest& request) {
  return {request.id, ::strnlen(request.id, kIdBytes)};
}

/// The descriptor of a role, or an invalid one. A role other than group may occur once.
UniqueFd take(const KeeperRequest& request, std::vector<UniqueFd>& fds, FdRole role) {
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (request.roles[i] == role && fds[i]) return std::move(fds[i]);
  }
  return {};
}

}  // namespace

Keeper::Keeper(UniqueFd listener, UniqueFd peer, std::uint32_t adopt_grace_ms)
    : listener_(std::move(listener)), peer_(std::move(peer)), adopt_grace_ms_(adopt_grace_ms) {}

bool Keeper::prepare() {
  ::setsid();  // a terminal's Ctrl-C is for the client, not for the sandboxes
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return false;
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return false;
  for (const int number : {SIGPIPE, SIGINT, SIGHUP, SIGTERM}) ::signal(number, SIG_IGN);
  sigset_t watched;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &watched, nullptr) != 0) return false;
  signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  self_.reset(static_cast<int>(::syscall(__NR_pidfd_open, ::getpid(), 0)));
  return signals_.valid() && self_.valid();
}

int Keeper::wait_ms() const {
  if (!alone_until_ms_) return -1;
  return static_cast<int>(std::clamp<std::int64_t>(*alone_until_ms_ - now_ms(), 0, 1 << 30));
}

int Keeper::run() {
  if (!prepare()) return 1;
  for (;;) {
    pollfd watched[] = {{listener_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {peer_.get(), POLLIN, 0}};
    if (::poll(watched, 3, wait_ms()) < 0 && errno != EINTR) return 1;
    reap();
    if (watched[0].revents != 0) accept_peer();
    // A new peer replaces the old one, whose event is then void.
    if (watched[0].revents == 0 && watched[2].revents != 0) serve_peer();
    // Without a jail there is nothing that a later host could want from this one.
    if (alone_until_ms_ && (jails_.empty() || now_ms() >= *alone_until_ms_)) {
      end_all();
      return 0;
    }
  }
}

void Keeper::accept_peer() {
  UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred who{};
  socklen_t size = sizeof who;
  if (!peer || ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (who.uid != ::geteuid()) return;
  peer_ = std::move(peer);
  alone_until_ms_.reset();
}

void Keeper::lose_peer() {
  peer_.reset();
  alone_until_ms_ = now_ms() + adopt_grace_ms_;
}

void Keeper::serve_peer() {
  KeeperRequest request;
  std::vector<UniqueFd> fds;
  const ssize_t size = provider::linux_jail::receive_packet(peer_.get(), &request, sizeof request, fds);
  const bool well_formed = size == sizeof request && request.magic == kKeeperMagic &&
                           request.version == kKeeperVersion && request.fd_count == fds.size() &&
                           fds.size() <= kMaxRoles;
  if (!well_formed) return lose_peer();
  switch (request.op) {
    case KeeperOp::launch:
      return answer_launch(request, fds);
    case KeeperOp::list:
      return answer_list();
    case KeeperOp::forget:
      return answer_forget(request);
    case KeeperOp::hello: {
      KeeperReply reply;
      reply.pid = ::getpid();
      return send(reply, nullptr, false);
    }
  }
  lose_peer();
}

KeeperReply Keeper::launch(const KeeperRequest& request, std::vector<UniqueFd>& fds, Jail& jail) {
  KeeperReply reply;
  std::memcpy(reply.id, request.id, kIdBytes);
  const UniqueFd plan = take(request, fds, FdRole::plan);
  const UniqueFd init = take(request, fds, FdRole::init);
  const UniqueFd control = take(request, fds, FdRole::control_inside);
  const UniqueFd barrier = take(request, fds, FdRole::barrier_inside);
  const UniqueFd gate = take(request, fds, FdRole::gate);
  const UniqueFd etc = take(request, fds, FdRole::etc);
  const UniqueFd base = take(request, fds, FdRole::base);
  const UniqueFd leaf = take(request, fds, FdRole::leaf);
  jail.control = take(request, fds, FdRole::control_host);
  jail.barrier = take(request, fds, FdRole::barrier_host);
  jail.image = take(request, fds, FdRole::image);
  reply.stage = Stage::plan;
  reply.error = EINVAL;
  if (!plan || !init || !control || !barrier || !jail.control || !jail.barrier) return reply;
  std::vector<UniqueFd> groups;
  for (UniqueFd group = take(request, fds, FdRole::group); group; group = take(request, fds, FdRole::group)) {
    groups.push_back(std::move(group));
  }
  JailFds inside;
  inside.init = init.get();
  inside.control = control.get();
  inside.barrier = barrier.get();
  inside.gate = gate.get();
  inside.etc = etc.get();
  inside.base = base.get();
  inside.keeper = self_.get();
  for (const UniqueFd& group : groups) inside.groups.push_back(group.get());
  SG_CRASH_POINT("keeper.before_clone");
  LaunchResult launched = launch_jail(plan.get(), inside, leaf.get());
  SG_CRASH_POINT("keeper.launched");
  jail.groups = group_folders(groups, leaf);
  reply.error = launched.error;
  reply.stage = launched.stage;
  reply.pid = jail.pid = launched.pid;
  jail.pidfd = std::move(launched.pidfd);
  jail.listener = std::move(launched.listener);
  return reply;
}

void Keeper::answer_launch(const KeeperRequest& request, std::vector<UniqueFd>& fds) {
  const std::string id = id_of(request);
  KeeperReply reply;
  Jail jail;
  if (id.empty() || jails_.contains(id)) {
    reply.error = EEXIST;
    reply.stage = Stage::plan;
    return send(reply, nullptr, false);
  }
  reply = launch(request, fds, jail);
  if (reply.error != 0) return send(reply, nullptr, false);
  const Jail& kept = jails_.emplace(id, std::move(jail)).first->second;
  send(reply, &kept, false);
}

void Keeper::answer_list() {
  for (const auto& [id, jail] : jails_) {
    KeeperReply reply;
    reply.more = 1;
    reply.pid = jail.pid;
    id.copy(reply.id, kIdBytes - 1);
    send(reply, &jail, true);
  }
  KeeperReply last;
  send(last, nullptr, false);
}

void Keeper::answer_forget(const KeeperRequest& request) {
  const auto found = jails_.find(id_of(request));
  SG_CRASH_POINT("keeper.before_forget");
  if (found != jails_.end()) {
    ::kill(found->second.pid, SIGKILL);
    ::waitpid(found->second.pid, nullptr, 0);
    jails_.erase(found);
  }
  KeeperReply reply;
  send(reply, nullptr, false);
}

void Keeper::send(KeeperReply& reply, const Jail* jail, bool with_host_ends) {
  std::vector<int> fds;
  const auto add = [&](FdRole role, const UniqueFd& fd) {
    if (!fd) return;
    reply.roles[fds.size()] = role;
    fds.push_back(fd.get());
  };
  if (jail != nullptr) {
    add(FdRole::pidfd, jail->pidfd);
    add(FdRole::listener, jail->listener);
    if (with_host_ends) {
      add(FdRole::control_host, jail->control);
      add(FdRole::barrier_host, jail->barrier);
      add(FdRole::image, jail->image);
    }
  }
  reply.fd_count = static_cast<std::uint32_t>(fds.size());
  if (!provider::linux_jail::send_packet(peer_.get(), &reply, sizeof reply, fds)) lose_peer();
}

void Keeper::reap() {
  signalfd_siginfo drained;
  while (::read(signals_.get(), &drained, sizeof drained) > 0) {
  }
  for (;;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid <= 0) return;
    std::erase_if(jails_, [pid](const auto& jail) { return jail.second.pid == pid; });
  }
}

void Keeper::end_all() {
  for (const auto& [id, jail] : jails_) ::kill(jail.pid, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  // No host is there to do it.
  for (const auto& [id, jail] : jails_) remove_groups(jail.groups);
  jails_.clear();
}

}  // namespace sandglass::sandbox_runtime::keeper
