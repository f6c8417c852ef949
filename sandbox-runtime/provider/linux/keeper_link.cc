#include "sandbox-runtime/provider/linux/keeper_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/socket_path.h"
#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/packet.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr int kReplyTimeoutMs = 30'000;

Status keeper_failed(const std::string& what) {
  return fail(Code::provider_failed, "sandglass-keeper: " + what);
}

/// In the forked child of a process that may have threads: system calls only.
[[noreturn]] void execute_keeper(const KeeperOptions& options, const char* grace, int listener, int peer) {
  const int from_listener = ::fcntl(listener, F_DUPFD, 10);
  const int from_peer = ::fcntl(peer, F_DUPFD, 10);
  if (::dup2(from_listener, kKeeperListenFd) < 0 || ::dup2(from_peer, kKeeperPeerFd) < 0) ::_exit(126);
  ::syscall(__NR_close_range, kKeeperPeerFd + 1, ~0u, 0);
  ::execl(options.program.c_str(), "sandglass-keeper", options.socket_path.c_str(), grace, nullptr);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<KeeperLink>> KeeperLink::open(KeeperOptions options) {
  std::unique_ptr<KeeperLink> link(new KeeperLink(std::move(options)));
  if (Status done = link->connect_or_start(); !done) return std::unexpected(done.error());
  return link;
}

KeeperLink::~KeeperLink() = default;

Status KeeperLink::connect_or_start() {
  const auto address = engine::base::SocketPath::make(options_.socket_path);
  if (!address) return keeper_failed(address.error().message);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return keeper_failed("socket: " + error_text(errno));
  if (::connect(socket.get(), address->address(), address->size()) != 0) return start();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != ::geteuid() && peer.uid != 0)) {
    return keeper_failed("its socket " + options_.socket_path + " belongs to another user");
  }
  socket_ = std::move(socket);
  // The peer's credentials are those of whoever made the listening socket, a host that may be gone: ask.
  const KeeperRequest hello{.op = KeeperOp::hello};
  if (!send_packet(socket_.get(), &hello, sizeof hello, {})) return start();
  bool more = false;
  const Result<KeptJail> reply = receive(more);
  if (!reply) return start();
  keeper_pid_ = reply->pid;
  return {};
}

Status KeeperLink::start() {
  const auto address = engine::base::SocketPath::make(options_.socket_path);
  if (!address) return keeper_failed(address.error().message);
  if (::access(options_.program.c_str(), X_OK) != 0) {
    return keeper_failed("cannot be executed: " + options_.program + ": " + error_text(errno));
  }
  ::unlink(options_.socket_path.c_str());
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener || ::fchmod(listener.get(), 0600) != 0 ||
      ::bind(listener.get(), address->address(), address->size()) != 0 ||
      ::chmod(options_.socket_path.c_str(), 0600) != 0 || ::listen(listener.get(), 4) != 0) {
    return keeper_failed("cannot listen at " + options_.socket_path + ": " + error_text(errno));
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return keeper_failed("socketpair: " + error_text(errno));
  }
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  const std::string grace = std::to_string(options_.adopt_grace_ms);
  const pid_t pid = ::fork();
  if (pid < 0) return keeper_failed("fork: " + error_text(errno));
  if (pid == 0) execute_keeper(options_, grace.c_str(), listener.get(), theirs.get());
  socket_ = std::move(ours);
  keeper_pid_ = pid;
  return {};
}

Status KeeperLink::send(KeeperOp op, const std::string& id, const std::vector<RoleFd>& fds) {
  KeeperRequest request;
  request.op = op;
  request.fd_count = static_cast<std::uint32_t>(fds.size());
  if (id.size() >= kIdBytes || fds.size() > kMaxRoles)
    return fail(Code::internal, "keeper request too large");
  id.copy(request.id, id.size());
  std::vector<int> numbers;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    request.roles[i] = fds[i].role;
    numbers.push_back(fds[i].fd);
  }
  if (socket_ && send_packet(socket_.get(), &request, sizeof request, numbers)) return {};
  if (socket_ && errno != EPIPE && errno != ECONNRESET) return keeper_failed("send: " + error_text(errno));
  // It has ended, and every sandbox with it (V1), or its answers can no longer be told apart. A new
  // connection serves what comes.
  socket_.reset();
  ::waitpid(keeper_pid_, nullptr, WNOHANG);
  if (Status started = connect_or_start(); !started) return started;
  if (send_packet(socket_.get(), &request, sizeof request, numbers)) return {};
  return keeper_failed("send: " + error_text(errno));
}

Result<KeptJail> KeeperLink::receive(bool& more) {
  pollfd waiting{socket_.get(), POLLIN, 0};
  const int ready = ::poll(&waiting, 1, kReplyTimeoutMs);
  if (ready == 0) {
    socket_.reset();  // the late answer must not be taken for that to the next request
    return fail(Code::provider_failed, "sandglass-keeper does not answer");
  }
  KeeperReply reply;
  std::vector<UniqueFd> fds;
  const ssize_t size = receive_packet(socket_.get(), &reply, sizeof reply, fds);
  if (size != sizeof reply || reply.magic != kKeeperMagic || reply.fd_count != fds.size() ||
      fds.size() > kMaxRoles) {
    socket_.reset();
    return fail(Code::provider_failed, "sandglass-keeper ended or sent a malformed reply");
  }
  more = reply.more != 0;
  if (reply.error != 0) {
    return fail(Code::provider_failed,
                "sandbox not made: " + std::string(describe(reply.stage)) + ": " + error_text(reply.error));
  }
  KeptJail jail;
  jail.id.assign(reply.id, ::strnlen(reply.id, kIdBytes));
  jail.pid = reply.pid;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    switch (reply.roles[i]) {
      case FdRole::pidfd:
        jail.pidfd = std::move(fds[i]);
        break;
      case FdRole::listener:
        jail.listener = std::move(fds[i]);
        break;
      case FdRole::control_host:
        jail.control = std::move(fds[i]);
        break;
      case FdRole::barrier_host:
        jail.barrier = std::move(fds[i]);
        break;
      case FdRole::image:
        jail.image = std::move(fds[i]);
        break;
      default:
        return fail(Code::provider_failed, "sandglass-keeper sent a descriptor of an unknown role");
    }
  }
  return jail;
}

Result<KeptJail> KeeperLink::launch(const std::string& id, const std::vector<RoleFd>& fds,
                                    const std::function<void()>& meanwhile) {
  const std::lock_guard lock(mutex_);
  if (Status sent = send(KeeperOp::launch, id, fds); !sent) return std::unexpected(sent.error());
  meanwhile();
  bool more = false;
  return receive(more);
}

Result<std::vector<KeptJail>> KeeperLink::list() {
  const std::lock_guard lock(mutex_);
  if (Status sent = send(KeeperOp::list, "", {}); !sent) return std::unexpected(sent.error());
  std::vector<KeptJail> jails;
  for (bool more = true; more;) {
    Result<KeptJail> jail = receive(more);
    if (!jail) return std::unexpected(jail.error());
    if (!jail->id.empty()) jails.push_back(std::move(*jail));
  }
  return jails;
}

Status KeeperLink::forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (Status sent = send(KeeperOp::forget, id, {}); !sent) return sent;
  bool more = false;
  const Result<KeptJail> done = receive(more);
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
