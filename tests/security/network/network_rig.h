// The world of the network attacks: a real sandbox host, the real proxy program, a name server and origin
// servers of the test, and traps, which nobody may ever reach. Attackers are programs inside real sandboxes.
// Made once for all tests of the program, since a host takes its time to start.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "schemas/sandglass/frame/v1/network.pb.h"
#include "tests/support/host/host_rig.h"
#include "tests/support/raw_server.h"
#include "tests/support/test_dns.h"

namespace sandglass::tests::security {

namespace provider = sandbox_runtime::provider;
using engine::base::Code;
using engine::base::UniqueFd;
using support::Peer;
using support::TestDns;

/// Listens and is never to be reached: TCP and UDP of one port.
class Trap {
 public:
  explicit Trap(const char* address, std::uint16_t port = 0);
  std::uint16_t port() const { return port_; }
  /// True if anybody has connected or sent anything since the last call.
  bool sprung();

 private:
  UniqueFd tcp_, udp_;
  std::uint16_t port_ = 0;
};

class NetworkRig {
 public:
  NetworkRig();

  /// Of every test; a sandbox that earlier tests made is used again.
  static NetworkRig& get();
  static void end();

  static constexpr const char* name = "allowed.example.com";
  static constexpr std::uint32_t max_connections = 24;
  static constexpr std::int64_t head_timeout_ms = 2000;
  static constexpr std::uint64_t max_host_bytes = 1 << 20;

  /// A sandbox that may go to `name` and to the other names of the tests, at the origin's port.
  provider::SandboxRef open_sandbox() { return open_; }
  /// One with a network and without a rule.
  provider::SandboxRef closed_sandbox() { return closed_; }
  provider::SandboxRef make(const std::string& id, std::vector<provider::AllowedDestination> allow,
                            std::uint64_t fence = 3);
  std::vector<provider::AllowedDestination> usual_rules() const;

  /// Runs Python inside, after a prelude: ask(bytes) → what the proxy answered, status(bytes),
  /// tunnel(target), PORT.
  std::string python(const provider::SandboxRef& sandbox, const std::string& code);
  /// The statuses of the proxy's answers to raw requests, one connection each: "403", "closed".
  std::vector<std::string> statuses(const provider::SandboxRef& sandbox,
                                    const std::vector<std::string>& requests);
  std::string shell(const provider::SandboxRef& sandbox, const std::string& script);
  /// The same, with what it prints at the end thrown away: runs beside the test until stopped.
  std::future<engine::base::Result<provider::ExecResult>> background(const provider::SandboxRef& sandbox,
                                                                     const std::string& code);
  std::string program(const std::string& code) const;

  std::string authority() const { return std::string(name) + ":" + std::to_string(origin.port()); }
  int origin_requests() const { return origin_requests_; }
  /// The last bytes that the origin got.
  std::string origin_saw();
  bool traps_sprung();

  sandbox_runtime::host::HostRig host;
  TestDns dns;
  support::RawServer origin;
  Trap trap;           // every address of this machine
  Trap beside_origin;  // 127.0.0.2, the origin's port

 private:
  void serve(Peer& peer);
  frame::v1::NetworkConfig config() const;

  std::atomic<int> origin_requests_ = 0;
  std::mutex mutex_;
  std::string saw_;
  provider::SandboxRef open_, closed_;
};

/// Every test ends with no trap sprung.
class NetworkAttack : public testing::Test {
 protected:
  void SetUp() override { (void)rig.traps_sprung(); }
  void TearDown() override {
    EXPECT_FALSE(rig.traps_sprung()) << "a connection or packet reached what must not be reached";
  }

  std::string connect_head(const std::string& target) const {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
  }
  std::string get_head(const std::string& authority, const std::string& extra = "") const {
    return "GET http://" + authority + "/ HTTP/1.1\r\nHost: " + authority + "\r\n" + extra + "\r\n";
  }
  /// All of them refused by status 400 or 403, without a look-up and without anything for the origin.
  void expect_refused(const provider::SandboxRef& sandbox, const std::vector<std::string>& requests);

  NetworkRig& rig = NetworkRig::get();
};

}  // namespace sandglass::tests::security
