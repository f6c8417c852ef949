// The fixture: the proxy from end to end through real sockets: a host that hands over a listener, a client
// with raw bytes, an origin server, a name server.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/base/codes.h"
#include "sandbox-runtime/egress/egress.h"
#include "sandbox-runtime/frames/frame.h"
#include "schemas/sandglass/frame/v1/egress.pb.h"
#include "tests/support/client_hello.h"
#include "tests/support/raw_server.h"
#include "tests/support/test_dns.h"

namespace sandglass::sandbox_runtime::egress {
namespace pb = ::sandglass::frame::v1;
using engine::base::Code;
using engine::base::UniqueFd;
using tests::support::connect_to;
using tests::support::Peer;
using tests::support::RawServer;
using namespace std::string_literals;

inline const std::string name = "allowed.example.com";

/// The host's end of the control socket.
class TestHost {
 public:
  explicit TestHost(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  pb::EgressReply call(pb::EgressRequest request, std::vector<int> descriptors = {}) {
    request.set_id(++last_id_);
    frames::FrameWriter writer;
    EXPECT_TRUE(writer.push(request.SerializeAsString(), descriptors));
    EXPECT_TRUE(writer.flush(fd_.get()));
    for (;;) {
      const pb::EgressMessage message = receive();
      if (message.has_reply()) return message.reply();
      events_.push_back(message);
      if (message.body_case() == pb::EgressMessage::BODY_NOT_SET) return {};
    }
  }
  pb::NetworkVerdict next_verdict() {
    for (;;) {
      const pb::EgressMessage message = next_event();
      if (message.has_verdict() || message.body_case() == pb::EgressMessage::BODY_NOT_SET)
        return message.verdict();
    }
  }
  pb::EgressUsage next_usage() {
    for (;;) {
      const pb::EgressMessage message = next_event();
      if (message.has_usage() || message.body_case() == pb::EgressMessage::BODY_NOT_SET)
        return message.usage();
    }
  }

 private:
  pb::EgressMessage next_event() {
    if (events_.empty()) return receive();
    pb::EgressMessage event = events_.front();
    events_.pop_front();
    return event;
  }
  pb::EgressMessage receive() {
    std::string length(4, '\0');
    pb::EgressMessage message;
    if (::recv(fd_.get(), length.data(), 4, MSG_WAITALL) != 4) return message;
    std::size_t size = 0;
    for (const char byte : length) size = size << 8 | static_cast<std::uint8_t>(byte);
    std::string bytes(size, '\0');
    EXPECT_EQ(::recv(fd_.get(), bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    EXPECT_TRUE(message.ParseFromString(bytes));
    return message;
  }

  UniqueFd fd_;
  std::uint64_t last_id_ = 0;
  std::deque<pb::EgressMessage> events_;
};

class EgressTest : public testing::Test {
 protected:
  void SetUp() override {
    dns.on(name, {"127.0.0.1"});
    dns.on("internal.example.com", {"127.0.0.1"});
    start({});
  }
  void TearDown() override { stop(); }

  void start(const pb::EgressLimits& limits) {
    stop();
    pb::NetworkConfig config;
    config.add_resolvers(dns.endpoint().text());
    auto* internal = config.add_internal();
    internal->set_host(name);
    internal->set_port(origin.port());
    internal->set_range("127.0.0.1/32");
    *config.mutable_egress() = limits;
    path = testing::TempDir() + "egress-" + std::to_string(::getpid()) + ".sock";
    auto control = listen_on_path(path);
    ASSERT_TRUE(control) << control.error().message;
    auto made = Egress::make(config, std::move(*control), {::getuid()});
    ASSERT_TRUE(made) << made.error().message;
    egress = std::move(*made);
    loop = std::thread([this] { egress->run(); });
    host = std::make_unique<TestHost>(path);
    ASSERT_EQ(add_listener().code(), 0u);
    ASSERT_EQ(begin_lease(1).code(), 0u);
  }
  void stop() {
    host = nullptr;
    if (!egress) return;
    egress->stop();
    loop.join();
    egress = nullptr;
    ::unlink(path.c_str());
  }

  pb::EgressReply add_listener() {
    const UniqueFd listener = tests::support::listen_on_loopback(proxy_port);
    pb::EgressRequest request;
    request.mutable_add_listener()->set_sandbox("s1");
    return host->call(request, {listener.get()});
  }
  void add_rules(google::protobuf::RepeatedPtrField<pb::AllowRule>& rules) {
    auto* rule = rules.Add();
    rule->set_id("allowed");
    rule->set_host(name);
    rule->add_ports(origin.port());
    rule->set_raw_tunnel(raw_tunnel);
    auto* other = rules.Add();
    other->set_host("internal.example.com");
    other->add_ports(origin.port());
  }
  pb::EgressReply begin_lease(std::uint64_t token) {
    pb::EgressRequest request;
    auto* lease = request.mutable_begin_lease();
    lease->set_sandbox("s1");
    lease->set_token(token);
    lease->set_run("run-1");
    lease->set_policy("code");
    add_rules(*lease->mutable_rules());
    return host->call(request);
  }
  pb::EgressReply end_lease(std::uint64_t token) {
    pb::EgressRequest request;
    request.mutable_end_lease()->set_sandbox("s1");
    request.mutable_end_lease()->set_token(token);
    return host->call(request);
  }

  std::string authority() const { return name + ":" + std::to_string(origin.port()); }
  std::string request(const std::string& method, const std::string& extra = "",
                      const std::string& body = "") const {
    return method + " http://" + authority() + "/x?q=1 HTTP/1.1\r\nHost: " + authority() + "\r\n" + extra +
           "\r\n" + body;
  }
  /// Sends the bytes, ends sending, gives everything that came back.
  std::string exchange(const std::string& bytes) const {
    Peer client = connect_to(proxy_port);
    client.send(bytes);
    client.end_sending();
    return client.read_all();
  }
  std::string connect_head(const std::string& target) const {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
  }
  Peer tunnel() const {
    Peer client = connect_to(proxy_port);
    client.send(connect_head(authority()));
    EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
    return client;
  }

  /// What the origin saw: heads, in order.
  void saw(const std::string& head) {
    const std::lock_guard lock(mutex);
    heads.push_back(head);
  }
  std::vector<std::string> seen() {
    const std::lock_guard lock(mutex);
    return heads;
  }
  void set_answer(std::function<void(Peer&, const std::string&)> with) {
    const std::lock_guard lock(mutex);
    answer = std::move(with);
  }

  std::mutex mutex;
  std::vector<std::string> heads;
  std::function<void(Peer&, const std::string&)> answer = [](Peer& peer, const std::string&) {
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Origin: yes\r\n\r\nok");
  };
  bool raw_tunnel = true;
  tests::support::TestDns dns;
  RawServer origin{[this](Peer& peer) {
    const std::string head = peer.read_until("\r\n\r\n");
    saw(head);
    std::function<void(Peer&, const std::string&)> with;
    {
      const std::lock_guard lock(mutex);
      with = answer;
    }
    with(peer, head);
  }};
  std::string path;
  std::uint16_t proxy_port = 0;
  std::unique_ptr<Egress> egress;
  std::thread loop;
  std::unique_ptr<TestHost> host;
};

}  // namespace sandglass::sandbox_runtime::egress
