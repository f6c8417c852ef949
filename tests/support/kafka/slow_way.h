// A way to a broker that delays what the broker answers, and cuts connections: a proxy on the loopback
// interface. The broker must tell its clients to come by it (advertised.listeners).
//
// Thread rule: any thread. Ownership: ends its threads and connections with itself.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "engine/base/check.h"
#include "engine/base/unique_fd.h"

namespace sandglass::tests::support {

class SlowWay {
 public:
  SlowWay() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = loopback(0);
    socklen_t length = sizeof at;
    auto* address = reinterpret_cast<sockaddr*>(&at);
    SG_CHECK(::bind(listener_.get(), address, length) == 0 && ::listen(listener_.get(), 64) == 0, "bind");
    SG_CHECK(::getsockname(listener_.get(), address, &length) == 0, "getsockname");
    port_ = ntohs(at.sin_port);
  }
  ~SlowWay() {
    stopping_ = true;
    cut();
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (acceptor_.joinable()) acceptor_.join();
    for (std::thread& carrier : carriers_) carrier.join();
  }
  SlowWay(const SlowWay&) = delete;
  SlowWay& operator=(const SlowWay&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  /// `broker`: 127.0.0.1:port.
  void lead_to(const std::string& broker) {
    target_ = std::stoi(broker.substr(broker.find(':') + 1));
    acceptor_ = std::thread([this] { accept_all(); });
  }
  /// Every answer of the broker is held up for so long.
  void delay(int ms) { delay_ms_ = ms; }
  /// Ends all connections, with what is on its way; new ones are accepted.
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const engine::base::UniqueFd& end : ends_) ::shutdown(end.get(), SHUT_RDWR);
  }

 private:
  static sockaddr_in loopback(int port) {
    return {.sin_family = AF_INET,
            .sin_port = htons(static_cast<std::uint16_t>(port)),
            .sin_addr = {htonl(INADDR_LOOPBACK)}};
  }

  void accept_all() {
    while (!stopping_) {
      engine::base::UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) continue;
      engine::base::UniqueFd broker(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in at = loopback(target_);
      if (::connect(broker.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) continue;
      const int one = 1;
      for (const int end : {client.get(), broker.get()})
        ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      const int from = client.get();
      const int to = broker.get();
      const std::lock_guard lock(mutex_);
      ends_.push_back(std::move(client));
      ends_.push_back(std::move(broker));
      carriers_.emplace_back([this, from, to] { carry(from, to, false); });
      carriers_.emplace_back([this, from, to] { carry(to, from, true); });
    }
  }

  void carry(int from, int to, bool answers) const {
    std::array<char, 65536> bytes{};
    while (true) {
      const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      if (answers && delay_ms_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
      if (::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) break;
    }
    ::shutdown(from, SHUT_RDWR);
    ::shutdown(to, SHUT_RDWR);
  }

  engine::base::UniqueFd listener_;
  int port_ = 0;
  std::atomic<int> target_{0};
  std::atomic<int> delay_ms_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::list<engine::base::UniqueFd> ends_;  // open until the end: a number in use is not given again
  std::list<std::thread> carriers_;
  std::thread acceptor_;
};

}  // namespace sandglass::tests::support
