// A TCP server on a free loopback port whose connections a test's function handles byte by byte, each on a
// thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::tests::support {

/// A connected socket with a time limit on every read, so that a test that waits in vain fails instead of
/// hanging.
class Peer {
 public:
  explicit Peer(engine::base::UniqueFd fd) : fd_(std::move(fd)) {
    const timeval limit{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  int fd() const { return fd_.get(); }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Everything up to and with `mark`; what follows stays for the next read. Less when the peer ends first.
  std::string read_until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!fill()) return std::exchange(buffer_, {});
    }
    return take(at + mark.size());
  }
  std::string read_exactly(std::size_t count) {
    while (buffer_.size() < count && fill()) {
    }
    return take(std::min(count, buffer_.size()));
  }
  std::string read_all() {
    while (fill()) {
    }
    return std::exchange(buffer_, {});
  }
  /// True when the other side has closed; false while it stays open for `ms`.
  bool ends_within(int ms) {
    pollfd waiting{fd_.get(), POLLIN, 0};
    while (::poll(&waiting, 1, ms) > 0) {
      if (!fill()) return true;
    }
    return false;
  }
  void end_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }

 private:
  bool fill() {
    char bytes[16384];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  std::string take(std::size_t count) {
    std::string taken = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return taken;
  }

  engine::base::UniqueFd fd_;
  std::string buffer_;
};

inline engine::base::UniqueFd listen_on_loopback(std::uint16_t& port, const char* address = "127.0.0.1") {
  engine::base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &bound.sin_addr);
  ::bind(fd.get(), reinterpret_cast<sockaddr*>(&bound), sizeof bound);
  ::listen(fd.get(), 256);
  socklen_t length = sizeof bound;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  port = ntohs(bound.sin_port);
  return fd;
}

inline Peer connect_to(std::uint16_t port) {
  engine::base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return Peer(std::move(fd));
}

class RawServer {
 public:
  using Handler = std::function<void(Peer&)>;

  explicit RawServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = listen_on_loopback(port_);
    wake_.reset(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  /// Cuts the connections that are open and waits for their handlers.
  ~RawServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (Peer& peer : peers_) ::shutdown(peer.fd(), SHUT_RDWR);
    }
    for (std::thread& worker : workers_) worker.join();
  }

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void run() {
    for (;;) {
      pollfd fds[] = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      ::poll(fds, 2, -1);
      if (fds[0].revents) return;
      engine::base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) continue;
      ++connections_;
      const std::lock_guard lock(mutex_);
      Peer& peer = peers_.emplace_back(std::move(fd));
      workers_.emplace_back([this, &peer] {
        handler_(peer);
        ::shutdown(peer.fd(), SHUT_RDWR);
      });
    }
  }

  Handler handler_;
  engine::base::UniqueFd listener_;
  engine::base::UniqueFd wake_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::list<Peer> peers_;
  std::vector<std::thread> workers_;
  std::thread thread_;
};

}  // namespace sandglass::tests::support
