// The way out through host and proxy together: V4, V14, V15.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "schemas/sandglass/frame/v1/network.pb.h"
#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {
namespace {

using engine::base::Code;
using engine::base::UniqueFd;

/// Answers every request with "hello" and counts them.
class SmallServer {
 public:
  SmallServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~SmallServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const { return port_; }
  int requests() const { return requests_; }

 private:
  void serve() {
    while (true) {
      const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      char request[4096];
      if (recv(peer.get(), request, sizeof request, 0) <= 0) continue;
      ++requests_;
      const std::string_view answer =
          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
      (void)!send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

std::string config_for(const SmallServer& server) {
  frame::v1::NetworkConfig config;
  auto& name = *config.add_hosts();
  name.set_name("receiver.test");
  name.add_addresses("127.0.0.1");
  auto& internal = *config.add_internal();
  internal.set_host("receiver.test");
  internal.set_port(server.port());
  internal.set_range("127.0.0.1/32");
  return config.SerializeAsString();
}

provider::SandboxRef make(HostRig& rig, const std::string& id,
                          std::vector<provider::AllowedDestination> allow) {
  provider::CreateRequest request;
  request.spec.id = id;
  request.spec.tmpl = HostRig::small_template();
  request.spec.tmpl.network = true;
  request.fence = 3;
  request.run = "run-1";
  request.expires_at_ms = engine::base::SystemClock().monotonic_ns() / 1'000'000 + 300'000;
  request.allow = std::move(allow);
  const auto created = rig.create(std::move(request));
  EXPECT_TRUE(created.has_value()) << created.error().message;
  return {id, 3};
}

TEST(Network, TheProxyIsTheOnlyWayAndAllowsWhatTheLeaseAllows) {
  SmallServer server;
  HostRig rig;
  rig.start_egress(config_for(server));
  const std::string address = "receiver.test:" + std::to_string(server.port());
  const auto open = make(rig, "open", {{"receiver", "receiver.test", {server.port()}, {}}});
  const auto closed = make(rig, "closed", {});
  const std::string fetch = "curl -s -m 10 -w ' %{http_code}' http://" + address + "/";
  EXPECT_EQ(rig.exec(open, rig.shell(fetch))->out, "hello 200");
  EXPECT_TRUE(rig.exec(closed, rig.shell(fetch))->out.ends_with(" 403"));
  // without the proxy there is no way at all
  const std::string direct =
      "curl -s -m 10 --noproxy '*' http://127.0.0.1:" + std::to_string(server.port()) + "/";
  EXPECT_NE(rig.exec(open, rig.shell(direct))->exit_code, 0);
  EXPECT_EQ(server.requests(), 1);
  // a proxy that was replaced learns everything again
  rig.kill_egress();
  rig.start_egress(config_for(server));
  const std::string patient = "for i in 1 2 3 4 5 6 7 8 9 10; do " + fetch + " && exit 0; sleep 0.2; done";
  EXPECT_TRUE(rig.exec(open, rig.shell(patient))->out.ends_with("hello 200"));
  EXPECT_TRUE(rig.exec(closed, rig.shell(fetch))->out.ends_with(" 403"));
  // and so does a host
  rig.kill_host();
  rig.start_host();
  EXPECT_TRUE(rig.exec(open, rig.shell(patient))->out.ends_with("hello 200"));
}

TEST(Network, WhereverTheProxyDiesItsSuccessorLearnsEverything) {
  for (const char* point : {"egress.listener_added", "egress.lease_begun", "egress.lease_ended"}) {
    SmallServer server;
    HostRig rig;
    rig.crash_at(point);
    rig.start_egress(config_for(server));
    rig.crash_at("");
    // The proxy dies with the thread that starts it (V1), so that one stays to the end.
    std::binary_semaphore over(0);
    std::thread successor([&] {
      EXPECT_TRUE(rig.egress_was_killed()) << point << " was not reached";
      rig.start_egress(config_for(server));
      over.acquire();
    });
    const auto sandbox = make(rig, "one", {{"receiver", "receiver.test", {server.port()}, {}}});
    const std::string fetch = "for i in 1 2 3 4 5 6 7 8 9 10; do curl -s -m 10 http://receiver.test:" +
                              std::to_string(server.port()) + "/ && exit 0; sleep 0.2; done";
    EXPECT_EQ(rig.exec(sandbox, rig.shell(fetch))->out, "hello") << point;
    EXPECT_TRUE(rig.destroy(sandbox).has_value()) << point;
    over.release();
    successor.join();
    EXPECT_EQ(rig.left_on_machine(), std::vector<std::string>{}) << point;
  }
}

TEST(Network, ARuleThatTheProxyDoesNotTakeFailsTheCreate) {
  SmallServer server;
  HostRig rig;
  rig.start_egress(config_for(server));
  // the host may still be on its way to the proxy; with it there, the rule is judged
  make(rig, "first", {});
  provider::CreateRequest request;
  request.spec.id = "bad";
  request.spec.tmpl = HostRig::small_template();
  request.spec.tmpl.network = true;
  request.allow = {{"all", "*.com", {}, {}}};
  ASSERT_TRUE(HostRig::eventually([&] {
    auto again = request;
    const auto created = rig.create(std::move(again));
    if (created) (void)rig.destroy({"bad", 0});
    return !created;
  }));
  EXPECT_EQ(rig.inventory()->size(), 1u);
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::host
