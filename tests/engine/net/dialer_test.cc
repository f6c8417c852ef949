#include "engine/net/dialer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "engine/base/system_ports.h"
#include "engine/net/dns_message.h"
#include "engine/net/resolv_conf.h"
#include "tests/support/test_dns.h"

namespace sandglass::engine::net {
namespace {

using base::Code;
using tests::support::TestDns;

/// A listener that is never accepted from: a connection made to it can be seen by polling.
class Listener {
 public:
  explicit Listener(const char* address = "127.0.0.1") {
    fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage storage;
    unsigned length = parse_ipv4(address)->to_sockaddr(0, storage);
    ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&storage), length);
    ::listen(fd_.get(), 8);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    port = ntohs(bound.sin_port);
  }
  bool was_connected() const { return base::UniqueFd(::accept(fd_.get(), nullptr, nullptr)).valid(); }

  std::uint16_t port = 0;

 private:
  base::UniqueFd fd_;
};

class DialerTest : public testing::Test {
 protected:
  /// Dials a.example.com at the listener's port, where 127.0.0.1 alone is made an exception.
  DialResult dial(const char* range = "127.0.0.1/32") {
    NetworkSettings settings;
    settings.resolvers = {dns.endpoint()};
    settings.internal.push_back({target(), *parse_range(range)});
    settings.resolve_timeout_ms = resolve_timeout_ms;
    settings.connect_timeout_ms = 2000;
    const Gate gate(std::move(settings), clock);
    Dialer dialer(gate, clock);
    const RuleText rule{"r", "a.example.com", {listener.port}, {}};
    return dialer.dial_blocking(gate.decide(*RuleSet::parse(std::span(&rule, 1)), target(), "CONNECT"), 0);
  }
  HostPort target() const { return {*parse_host("a.example.com"), listener.port}; }

  TestDns dns;
  Listener listener;
  base::SystemClock clock;
  std::int64_t resolve_timeout_ms = 5000;
};

TEST_F(DialerTest, ConnectsToTheCheckedAddressAndSaysSo) {
  dns.on("a.example.com", {"127.0.0.1"});
  const DialResult result = dial();
  ASSERT_TRUE(result.connection) << result.connection.error().message;
  EXPECT_TRUE(listener.was_connected());
  EXPECT_TRUE(result.verdict.allowed);
  EXPECT_TRUE(result.verdict.internal);
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
  EXPECT_EQ(result.verdict.rule, "r");
  EXPECT_NE(result.verdict.json().find("\"address\":\"127.0.0.1\""), std::string::npos);
}

TEST_F(DialerTest, AnAddressOfARefusedRangeIsNeverConnectedTo) {
  dns.on("a.example.com", {"127.0.0.1"});
  const DialResult result = dial("10.0.0.0/8");
  ASSERT_FALSE(result.connection);
  EXPECT_EQ(result.connection.error().code, Code::address_refused);
  EXPECT_FALSE(result.verdict.allowed);
  EXPECT_EQ(result.verdict.rule, "special-range:loopback");
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
  EXPECT_FALSE(listener.was_connected());
}

TEST_F(DialerTest, ARebindingNameIsResolvedOnceAndTheCheckedAnswerIsUsed) {
  // ADV-C13, FR-162: first answer fine, every later one bad.
  const Listener other("127.0.0.2");
  dns.on("a.example.com", [](std::uint16_t type, int nth) {
    TestDns::Answer answer;
    if (type == 1)
      answer.records = {TestDns::address_record("a.example.com", nth == 1 ? "127.0.0.1" : "127.0.0.2")};
    return answer;
  });
  const DialResult result = dial();
  ASSERT_TRUE(result.connection);
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
  EXPECT_EQ(dns.queries(), 2);  // A and AAAA, once each
  EXPECT_FALSE(dial().connection);
}

TEST_F(DialerTest, OfMixedAnswersOnlyTheGoodOneIsUsed) {
  // ADV-C14: the bad one is first, and the good one is used although a bad one would accept.
  const Listener bad("127.0.0.2");
  dns.on("a.example.com", {"127.0.0.2", "::1", "127.0.0.1", "::ffff:127.0.0.1"});
  const DialResult result = dial();
  ASSERT_TRUE(result.connection);
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
  EXPECT_NE(result.verdict.reason.find("127.0.0.2"), std::string::npos);
  EXPECT_FALSE(bad.was_connected());
}

TEST_F(DialerTest, AnAliasIsFollowedAndItsEndIsChecked) {
  // ADV-C15: an allowed name that is an alias of an internal one.
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    answer.records = {TestDns::alias("a.example.com", "Metadata.internal")};
    if (type == 1) answer.records.push_back(TestDns::address_record("metadata.internal", "169.254.169.254"));
    return answer;
  });
  const DialResult result = dial();
  ASSERT_FALSE(result.connection);
  EXPECT_EQ(result.verdict.rule, "special-range:metadata");
}

TEST_F(DialerTest, AddressesOfOtherOwnersInTheAnswerAreIgnored) {
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    if (type == 1) answer.records = {TestDns::address_record("evil.example", "127.0.0.1")};
    return answer;
  });
  const DialResult result = dial();
  ASSERT_FALSE(result.connection);
  EXPECT_EQ(result.connection.error().code, Code::resolve_failed);
  EXPECT_FALSE(listener.was_connected());
}

TEST_F(DialerTest, LoopsOfAliasesAndMalformedAnswersFail) {
  resolve_timeout_ms = 300;  // c-ares waits for a better answer than the malformed one
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    if (type == 1)
      answer.records = {TestDns::alias("a.example.com", "b.example.com"),
                        TestDns::alias("b.example.com", "a.example.com")};
    else
      answer.raw = std::string("\xC0\x0C\xC0\x0C", 4);
    return answer;
  });
  EXPECT_EQ(dial().connection.error().code, Code::resolve_failed);
}

TEST_F(DialerTest, ATruncatedAnswerComesByTcpAndAThousandRecordsAreBounded) {
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    answer.truncate_udp = true;
    for (int i = 0; type == 1 && i < 1000; ++i) {
      answer.records.push_back(TestDns::address_record(
          "a.example.com", i == 5 ? "127.0.0.1" : "10.0.0." + std::to_string(i % 250)));
    }
    return answer;
  });
  const DialResult result = dial();
  ASSERT_TRUE(result.connection) << result.connection.error().message;
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
}

TEST_F(DialerTest, AForgedAnswerWithAnotherIdIsNotTaken) {
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer{.records = {}, .spoof_first = true};
    if (type == 1) answer.records = {TestDns::address_record("a.example.com", "127.0.0.1")};
    return answer;
  });
  const DialResult result = dial();
  ASSERT_TRUE(result.connection) << result.connection.error().message;
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
}

TEST_F(DialerTest, AnUnansweredAaaaQueryDoesNotHoldUpTheRest) {
  dns.on("a.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer{.records = {}, .silent = type == 28};
    if (type == 1) answer.records = {TestDns::address_record("a.example.com", "127.0.0.1")};
    return answer;
  });
  EXPECT_TRUE(dial().connection);
}

TEST_F(DialerTest, SilentNameServersEndInAFailureInTime) {
  dns.on("a.example.com", [](std::uint16_t, int) { return TestDns::Answer{.records = {}, .silent = true}; });
  resolve_timeout_ms = 200;
  const auto begin = clock.monotonic_ns();
  EXPECT_EQ(dial().connection.error().code, Code::resolve_failed);
  EXPECT_LT(clock.monotonic_ns() - begin, 3'000'000'000);
}

TEST_F(DialerTest, ARefusedConnectionIsAFailureAndTheNextAddressIsTried) {
  dns.on("a.example.com", {"127.0.0.3", "127.0.0.1"});
  const DialResult result = dial("127.0.0.0/8");
  ASSERT_TRUE(result.connection);
  EXPECT_EQ(result.verdict.address, "127.0.0.1");
  dns.on("a.example.com", {"127.0.0.3"});
  EXPECT_EQ(dial("127.0.0.0/8").connection.error().code, Code::connect_failed);
}

TEST_F(DialerTest, ADeniedNameReachesNoNameServer) {
  // FR-163: there is nothing to dial with.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Gate gate(NetworkSettings{.resolvers = {dns.endpoint()}}, clock);
  Dialer dialer(gate, clock);
  const NameDecision decision =
      gate.decide(RuleSet(), *parse_authority("secret-data.evil.example:443", 0), "CONNECT");
  EXPECT_FALSE(decision.verdict.allowed);
  EXPECT_EQ(decision.verdict.rule, "default-deny");
  EXPECT_DEATH(dialer.dial(decision, 0, [](DialResult) {}), "must never be looked up");
  EXPECT_EQ(dns.queries(), 0);
}

TEST_F(DialerTest, ManyAtOnceAreAllAnsweredAlsoWhenTheDiallerEnds) {
  dns.on("a.example.com", [](std::uint16_t, int) { return TestDns::Answer{.records = {}, .silent = true}; });
  NetworkSettings settings;
  settings.resolvers = {dns.endpoint()};
  const Gate gate(std::move(settings), clock);
  const RuleText rule{"r", "a.example.com", {}, {}};
  const auto decision =
      gate.decide(*RuleSet::parse(std::span(&rule, 1)), *parse_authority("a.example.com:443", 0), "GET");
  std::atomic<int> cancelled = 0;
  std::atomic<int> overloaded = 0;
  {
    Dialer dialer(gate, clock);
    for (int i = 0; i < 1100; ++i) {
      dialer.dial(decision, 0, [&](DialResult result) {
        ++(result.connection.error().code == Code::overloaded ? overloaded : cancelled);
      });
    }
  }
  EXPECT_EQ(cancelled + overloaded, 1100);
  EXPECT_GE(overloaded, 76);
}

TEST(DnsMessage, RandomAndCutAnswersNeverCrashOrLoop) {
  const std::string name = "a.example.com";
  std::string good = std::string("\x12\x34\x85\x80\x00\x01\x00\x03\x00\x00\x00\x00", 12) +
                     TestDns::wire_name(name) + TestDns::u16(1) + TestDns::u16(1);
  const auto add = [&](std::uint16_t type, const std::string& data) {
    good += std::string("\xC0\x0C", 2) + TestDns::u16(type) + TestDns::u16(1) + std::string(4, '\0') +
            TestDns::u16(data.size()) + data;
  };
  add(1, std::string("\x08\x08\x08\x08", 4));
  add(16, "text");
  add(1, std::string("\x01\x01\x01\x01", 4));
  ASSERT_EQ(read_dns_answer(good, name, false)->size(), 2u);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_FALSE(read_dns_answer(good.substr(0, cut), name, false));
  std::uint64_t state = 88172645463325252u;
  const auto random = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; };
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = good;
    for (int flips = 0; flips < 4; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto answer = read_dns_answer(bytes, name, round % 2 == 0);
    if (answer) ASSERT_LE(answer->size(), max_addresses);
  }
}

TEST(ResolvConf, TakesNameserverLinesOnly) {
  const auto found = read_resolv_conf(
      "# x\nsearch example.com\nnameserver 192.0.2.53\nnameserver fe80::1%eth0\nnameserver\t2001:db8::53 # "
      "y\noptions ndots:5\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text(), "192.0.2.53:53");
  EXPECT_EQ(found[1].text(), "[2001:db8::53]:53");
}

}  // namespace
}  // namespace sandglass::engine::net
