// A name server on loopback, UDP and TCP on one free port, that answers as a test tells it to and counts what
// it was asked. Thread rule: set up before the first query; counters from any thread.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/net/address.h"

namespace sandglass::tests::support {

class TestDns {
 public:
  struct Record {
    std::string owner;
    std::uint16_t type = 1;  // 1 A, 5 CNAME, 28 AAAA
    std::string data;        // raw
  };
  struct Answer {
    std::vector<Record> records;
    std::uint8_t rcode = 0;
    bool truncate_udp = false;  // UDP says "truncated" and carries nothing: ask again by TCP
    bool silent = false;
    bool spoof_first = false;  // a forged answer with another id and 198.51.100.66 comes before the right one
    std::string raw;           // sent behind the header instead of everything else
  };
  using Script = std::function<Answer(std::uint16_t type, int nth)>;

  TestDns() {
    for (int attempt = 0; attempt < 50 && !tcp_; ++attempt) bind_both();
    if (!tcp_) throw std::runtime_error("no free port");
    wake_.reset(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  ~TestDns() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

  /// `nth` counts the queries of one name and type from 1.
  void on(const std::string& name, Script script) {
    const std::lock_guard lock(mutex_);
    scripts_[name] = std::move(script);
  }
  void on(const std::string& name, const std::vector<std::string>& addresses) {
    on(name, [=](std::uint16_t type, int) {
      Answer answer;
      for (const std::string& text : addresses) {
        const Record one = address_record(name, text);
        if (one.type == type) answer.records.push_back(one);
      }
      return answer;
    });
  }

  engine::net::Endpoint endpoint() const { return {*engine::net::parse_ipv4("127.0.0.1"), port_}; }
  std::uint16_t port() const { return port_; }
  int queries() const {
    const std::lock_guard lock(mutex_);
    return queries_;
  }

  static Record address_record(const std::string& owner, const std::string& text) {
    const auto address = engine::net::parse_address(text);
    if (!address) throw std::runtime_error("no address: " + text);
    return {owner, static_cast<std::uint16_t>(address->v6 ? 28 : 1),
            std::string(reinterpret_cast<const char*>(address->bytes.data()), address->v6 ? 16 : 4)};
  }
  static Record alias(const std::string& owner, const std::string& target) {
    return {owner, 5, wire_name(target)};
  }

  static std::string wire_name(const std::string& name) {
    std::string out;
    std::size_t begin = 0;
    while (begin < name.size()) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      out += static_cast<char>(end - begin);
      out += name.substr(begin, end - begin);
      begin = end + 1;
    }
    return out + '\0';
  }
  static std::string u16(std::size_t value) {
    return {static_cast<char>(value >> 8), static_cast<char>(value)};
  }

 private:
  void bind_both() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    udp_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ::bind(udp_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    socklen_t length = sizeof address;
    ::getsockname(udp_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    engine::base::UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(tcp.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
    ::listen(tcp.get(), 64);
    port_ = ntohs(address.sin_port);
    tcp_ = std::move(tcp);
  }

  void run() {
    for (;;) {
      pollfd fds[] = {{wake_.get(), POLLIN, 0}, {udp_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}};
      ::poll(fds, 3, -1);
      if (fds[0].revents) return;
      if (fds[1].revents) serve_udp();
      if (fds[2].revents) serve_tcp();
    }
  }

  void serve_udp() {
    char buffer[4096];
    sockaddr_storage peer;
    socklen_t length = sizeof peer;
    const auto got =
        ::recvfrom(udp_.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&peer), &length);
    if (got < 12) return;
    for (const std::string& reply : answer({buffer, static_cast<std::size_t>(got)}, false)) {
      ::sendto(udp_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&peer), length);
    }
  }

  void serve_tcp() {
    const engine::base::UniqueFd peer(::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char buffer[4096];
    const auto got = ::recv(peer.get(), buffer, sizeof buffer, 0);
    if (got < 14) return;
    for (const std::string& reply : answer({buffer + 2, static_cast<std::size_t>(got - 2)}, true)) {
      const std::string framed = u16(reply.size()) + reply;
      ::send(peer.get(), framed.data(), framed.size(), MSG_NOSIGNAL);
    }
  }

  std::vector<std::string> answer(std::string_view query, bool tcp) {
    std::string name;
    std::size_t at = 12;
    while (at < query.size() && query[at] != 0) {
      const auto label = static_cast<std::uint8_t>(query[at]);
      name += (name.empty() ? "" : ".") + std::string(query.substr(at + 1, label));
      at += 1u + label;
    }
    if (at + 5 > query.size()) return {};
    const auto type = static_cast<std::uint16_t>(static_cast<std::uint8_t>(query[at + 1]) << 8 |
                                                 static_cast<std::uint8_t>(query[at + 2]));
    const std::string question(query.substr(12, at + 5 - 12));
    Answer wanted;
    {
      const std::lock_guard lock(mutex_);
      ++queries_;
      const auto script = scripts_.find(name);
      if (script == scripts_.end())
        wanted.rcode = 3;
      else
        wanted = script->second(type, ++counts_[{name, type}]);
    }
    if (wanted.silent) return {};
    const bool truncate = wanted.truncate_udp && !tcp;
    const std::string id(query.substr(0, 2));
    std::string body = question;
    if (!truncate) {
      for (const Record& record : wanted.records) body += encode(record);
    }
    if (!wanted.raw.empty()) body = wanted.raw;
    const std::string flags{static_cast<char>(truncate ? 0x87 : 0x85),
                            static_cast<char>(0x80 | wanted.rcode)};
    const std::string right =
        id + flags + u16(1) + u16(truncate ? 0 : wanted.records.size()) + u16(0) + u16(0) + body;
    if (!wanted.spoof_first) return {right};
    std::string forged_id = id;
    forged_id[0] = static_cast<char>(forged_id[0] ^ 0x5A);
    const std::string forged = forged_id + flags + u16(1) + u16(1) + u16(0) + u16(0) + question +
                               encode(address_record(name, "198.51.100.66"));
    return {forged, right};
  }

  static std::string encode(const Record& record) {
    return wire_name(record.owner) + u16(record.type) + u16(1) + std::string(4, '\0') +
           u16(record.data.size()) + record.data;
  }

  engine::base::UniqueFd udp_;
  engine::base::UniqueFd tcp_;
  engine::base::UniqueFd wake_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, Script> scripts_;
  std::map<std::pair<std::string, std::uint16_t>, int> counts_;
  int queries_ = 0;
  std::thread thread_;
};

}  // namespace sandglass::tests::support
