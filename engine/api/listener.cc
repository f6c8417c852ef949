#include "engine/api/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/base/socket_path.h"

namespace sandglass::engine::api {

namespace {

using base::Code;
using base::UniqueFd;

constexpr int kBacklog = 512;
constexpr int kReserve = 64;  // descriptors that connections never get; of few, a quarter
constexpr int kPauseMs = 50;  // after one was turned away

/// The first number that no connection may have.
int mark() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1'000'000) return 1'000'000;
  const int most = static_cast<int>(limit.rlim_cur);
  return most - std::min(kReserve, most / 4);
}

base::Result<UniqueFd> bound(int family, const sockaddr* address, socklen_t size, const std::string& shown) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    return base::fail(Code::io_error, "cannot make a socket for " + shown + ": " + std::strerror(errno));
  const int on = 1;
  // Only what lingers of former connections is passed over: a listener is not.
  if (family != AF_UNIX) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), address, size) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int reason = errno;
    const std::string advice =
        reason == EADDRINUSE ? "; stop what listens there, or choose another address with"
        : reason == EACCES   ? "; the engine has no right to ports below 1024: choose another with"
                             : "; choose another address with";
    return base::fail(reason == EADDRINUSE ? Code::address_in_use : Code::io_error,
                      "cannot listen on " + shown + ": " + std::strerror(reason) + advice + " listen.tcp");
  }
  return fd;
}

base::Result<UniqueFd> bind_unix(const std::string& path) {
  const auto address = base::SocketPath::make(path);
  if (!address) return std::unexpected(address.error());
  unlink(path.c_str());  // of an engine that was killed: the folder is ours
  return bound(AF_UNIX, address->address(), address->size(), path);
}

base::Result<UniqueFd> bind_tcp(const std::string& text) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  const auto parsed =
      std::from_chars(text.data() + std::min(colon + 1, text.size()), text.data() + text.size(), port);
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  sockaddr_in six_less{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 six{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  const bool number = colon != std::string::npos && parsed.ec == std::errc();
  if (number && inet_pton(AF_INET, host.c_str(), &six_less.sin_addr) == 1) {
    return bound(AF_INET, reinterpret_cast<const sockaddr*>(&six_less), sizeof six_less, text);
  }
  if (number && inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    return bound(AF_INET6, reinterpret_cast<const sockaddr*>(&six), sizeof six, text);
  }
  return base::fail(Code::io_error, "listen.tcp: " + text + " is no address and port");
}

}  // namespace

base::Result<std::unique_ptr<Listener>> Listener::open(const ListenAddresses& addresses) {
  std::unique_ptr<Listener> listener(new Listener());
  auto bound_unix = bind_unix(addresses.socket);
  if (!bound_unix) return std::unexpected(bound_unix.error());
  listener->unix_ = std::move(*bound_unix);
  listener->path_ = addresses.socket;
  if (!addresses.tcp.empty()) {
    auto bound_tcp = bind_tcp(addresses.tcp);
    if (!bound_tcp) return std::unexpected(bound_tcp.error());
    listener->tcp_ = std::move(*bound_tcp);
  }
  listener->stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->stop_)
    return base::fail(Code::io_error, std::string("cannot make an eventfd: ") + std::strerror(errno));
  return listener;
}

Listener::~Listener() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    SG_CHECK(write(stop_.get(), &one, sizeof one) == sizeof one, "eventfd");
    thread_.join();
  }
  if (!path_.empty()) unlink(path_.c_str());
}

void Listener::start(Taken taken) {
  thread_ = std::thread([this, taken = std::move(taken)] { run(taken); });
}

void Listener::run(const Taken& taken) {
  for (;;) {
    std::array<pollfd, 3> polled = {
        {{stop_.get(), POLLIN, 0}, {unix_.get(), POLLIN, 0}, {tcp_.valid() ? tcp_.get() : -1, POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    bool pause = false;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) pause = !accept_one(polled[i].fd, taken) || pause;
    }
    if (pause && poll(polled.data(), 1, kPauseMs) > 0) return;
  }
}

bool Listener::accept_one(int listening, const Taken& taken) {
  UniqueFd fd(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    // No descriptors or no memory: the connection waits in the backlog. Others mean that it has gone.
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  // whoever reaches the address may hold connections and say nothing: the last quarter is for the socket
  if (fd.get() < (listening == tcp_.get() ? mark() - mark() / 4 : mark())) {
    taken(std::move(fd));
    return true;
  }
  if (turned_away_++ % 100 == 0) {
    base::log(
        base::LogLevel::warning, "connection_turned_away",
        {{"reason", "nearly all file descriptors are in use (ulimit -n)"}, {"so_far", turned_away_.load()}});
  }
  return false;
}

}  // namespace sandglass::engine::api
