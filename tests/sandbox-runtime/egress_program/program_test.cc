// The real program sandglass-egress: killed and started again under a host that keeps the listeners (SPEC
// N8).
#include "tests/support/program.h"

#include "engine/net/codec/network_codec.h"
#include "tests/sandbox-runtime/egress/egress_fixture.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

TEST(EgressProgram, ANewProxyServesTheKeptListenersAndConnectionsNeverGoAround) {
  const std::string path = testing::TempDir() + "egress-program-" + std::to_string(::getpid()) + ".sock";
  const UniqueFd control = std::move(listen_on_path(path).value());
  const UniqueFd config(engine::net::codec::make_config_fd({}).value());
  const std::vector<std::string> command = {tests::support::program_path("sandglass-egress"), "--socket-fd",
                                            std::to_string(control.get()), "--config-fd",
                                            std::to_string(config.get())};
  std::uint16_t port = 0;
  const UniqueFd listener = tests::support::listen_on_loopback(port);
  const auto hand_over = [&](TestHost& host) {
    pb::EgressRequest add;
    add.mutable_add_listener()->set_sandbox("s1");
    EXPECT_EQ(host.call(add, {listener.get()}).code(), 0u);
    pb::EgressRequest begin;
    begin.mutable_begin_lease()->set_sandbox("s1");
    begin.mutable_begin_lease()->set_token(4);
    EXPECT_EQ(host.call(begin).code(), 0u);
  };
  const std::string request = "CONNECT denied.example.com:443 HTTP/1.1\r\n\r\n";

  auto proxy = std::make_unique<tests::support::Program>(command, std::vector{control.get(), config.get()});
  auto host = std::make_unique<TestHost>(path);
  hand_over(*host);
  Peer first = connect_to(port);
  first.send(request);
  EXPECT_TRUE(first.read_all().starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(host->next_verdict().token(), 4u);

  proxy->kill();
  // Nobody serves now: the connection waits in the kept listener, and nothing answers it.
  Peer waiting = connect_to(port);
  waiting.send(request);
  EXPECT_FALSE(waiting.ends_within(20));
  proxy = std::make_unique<tests::support::Program>(command, std::vector{control.get(), config.get()});
  host = std::make_unique<TestHost>(path);
  hand_over(*host);
  EXPECT_TRUE(waiting.read_all().starts_with("HTTP/1.1 403 "));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress
