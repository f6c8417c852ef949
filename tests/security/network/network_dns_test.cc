// Answers of name servers that try to lead the proxy astray: the name server of the test is the attacker's.
#include "tests/security/network/network_rig.h"

namespace sandglass::tests::security {
namespace {

using testing::HasSubstr;

class DnsAttack : public NetworkAttack {
 protected:
  std::string at(const std::string& host) const { return host + ":" + std::to_string(rig.origin.port()); }
  std::vector<std::string> get(const std::string& host, int times = 1) {
    return rig.statuses(rig.open_sandbox(),
                        std::vector<std::string>(static_cast<std::size_t>(times), get_head(at(host))));
  }
  /// What one GET answered, whole.
  std::string answer(const std::string& host) {
    return rig.python(rig.open_sandbox(),
                      "print(ask(b'GET http://" + at(host) + "/ HTTP/1.0\\r\\n\\r\\n').decode())");
  }
};

TEST_F(DnsAttack, ARebindingNameIsLookedUpOncePerConnectionAndTheCheckedAddressIsUsed) {  // ADV-C13, FR-162
  rig.dns.on("rebind.example.com", [](std::uint16_t type, int nth) {
    TestDns::Answer answer;
    if (type == 1)
      answer.records.push_back(
          TestDns::address_record("rebind.example.com", nth == 1 ? "127.0.0.1" : "127.0.0.2"));
    return answer;
  });
  const int looked_up = rig.dns.queries();
  const int requested = rig.origin_requests();
  EXPECT_EQ(get("rebind.example.com", 3), (std::vector<std::string>{"200", "403", "403"}));
  EXPECT_EQ(rig.origin_requests(), requested + 1);
  EXPECT_EQ(rig.dns.queries(), looked_up + 6) << "A and AAAA, once for each connection";
}

TEST_F(DnsAttack, OfMixedAnswersOnlyTheCheckedAddressIsEverUsed) {  // ADV-C14
  for (const auto& order : {std::vector<std::string>{"127.0.0.1", "127.0.0.2"}, {"127.0.0.2", "127.0.0.1"}}) {
    rig.dns.on("mixed.example.com", order);
    EXPECT_EQ(get("mixed.example.com"), std::vector<std::string>{"200"});
  }
  // Nobody answers at the good address: that is a failure and no reason to take the bad one.
  rig.dns.on("dead.example.com", std::vector<std::string>{"127.0.0.3", "127.0.0.2", "::1"});
  EXPECT_EQ(get("dead.example.com"), std::vector<std::string>{"502"});
}

TEST_F(DnsAttack, AnAliasToAnInternalNameIsJudgedAtItsEnd) {  // ADV-C15
  const auto alias_to = [&](const std::string& address) {
    rig.dns.on("alias.example.com", [=](std::uint16_t type, int) {
      TestDns::Answer answer;
      answer.records.push_back(TestDns::alias("alias.example.com", "inner.example.net"));
      if (type == 1) answer.records.push_back(TestDns::address_record("inner.example.net", address));
      return answer;
    });
  };
  alias_to("127.0.0.1");
  EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{"200"});
  alias_to("127.0.0.2");
  EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{"403"});
  alias_to("169.254.169.254");
  EXPECT_THAT(answer("alias.example.com"), HasSubstr("special-range:metadata"));
  // Without a rule for the end, the first name's rule counts; an address of a name that is not its end does
  // not.
  rig.dns.on("alias.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    if (type == 1) answer.records.push_back(TestDns::address_record("other.example.net", "127.0.0.1"));
    return answer;
  });
  EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{"502"});
}

TEST_F(DnsAttack, AWholeTreeOfNamesThatIsMovedElsewhereIsJudgedAtItsEndToo) {  // ADV-C15
  constexpr std::uint16_t kDname = 39;
  for (const bool with_alias : {true, false}) {
    for (const auto& [address, status] :
         {std::pair("127.0.0.1", "200"), {"127.0.0.2", "403"}, {"10.0.0.1", "403"}}) {
      rig.dns.on("alias.example.com", [=](std::uint16_t type, int) {
        TestDns::Answer answer;
        answer.records.push_back({"example.com", kDname, TestDns::wire_name("example.net")});
        if (with_alias) answer.records.push_back(TestDns::alias("alias.example.com", "alias.example.net"));
        if (type == 1) answer.records.push_back(TestDns::address_record("alias.example.net", address));
        return answer;
      });
      // a server that does not spell out the alias has said nothing of the name that was asked for
      EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{with_alias ? status : "502"}) << address;
    }
  }
}

TEST_F(DnsAttack, LoopsLongChainsAndMalformedAnswersEnd) {  // ADV-C15
  rig.dns.on("alias.example.com", [](std::uint16_t, int) {
    TestDns::Answer answer;
    answer.records = {TestDns::alias("alias.example.com", "b.example.com"),
                      TestDns::alias("b.example.com", "alias.example.com")};
    return answer;
  });
  EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{"502"});
  rig.dns.on("alias.example.com", [](std::uint16_t, int) {
    TestDns::Answer answer;
    std::string last = "alias.example.com";
    for (int i = 0; i < 50; ++i) {
      const std::string next = "n" + std::to_string(i) + ".example.com";
      answer.records.push_back(TestDns::alias(last, next));
      last = next;
    }
    answer.records.push_back(TestDns::address_record(last, "127.0.0.1"));
    return answer;
  });
  EXPECT_EQ(get("alias.example.com"), std::vector<std::string>{"502"});
  for (const std::string& raw : {std::string(20, '\xff'), std::string("\xc0\x0c")}) {
    rig.dns.on("alias.example.com", [raw](std::uint16_t, int) {
      TestDns::Answer answer;
      answer.raw = raw;
      return answer;
    });
    EXPECT_THAT(get("alias.example.com")[0], testing::AnyOf("502", "504"));
  }
}

TEST_F(DnsAttack, AThousandRecordsAreBoundedAndATruncatedAnswerComesByTcp) {  // ADV-C15
  rig.dns.on("many.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    answer.truncate_udp = true;
    for (int i = 0; i < 1000 && type == 1; ++i) {
      answer.records.push_back(TestDns::address_record(
          "many.example.com", "127.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1)));
    }
    return answer;
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(get("many.example.com"), std::vector<std::string>{"403"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  rig.dns.on("big.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    answer.truncate_udp = true;
    if (type == 1) answer.records.push_back(TestDns::address_record("big.example.com", "127.0.0.1"));
    return answer;
  });
  EXPECT_EQ(get("big.example.com"), std::vector<std::string>{"200"});
}

TEST_F(DnsAttack, AForgedAnswerIsNotTaken) {  // ADV-C15
  rig.dns.on("spoof.example.com", [](std::uint16_t type, int) {
    TestDns::Answer answer;
    answer.spoof_first = true;
    if (type == 1) answer.records.push_back(TestDns::address_record("spoof.example.com", "127.0.0.1"));
    return answer;
  });
  EXPECT_EQ(get("spoof.example.com"), std::vector<std::string>{"200"});
}

TEST_F(DnsAttack, SilentNameServersEndInAFailureAndHoldUpNobodyElse) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  rig.dns.on("silent.targets.example.com", [asked](std::uint16_t, int) {
    ++*asked;
    TestDns::Answer answer;
    answer.silent = true;
    return answer;
  });
  auto waiting =
      rig.background(rig.open_sandbox(),
                     "print(status(ask(b'GET http://silent.targets.example.com/ HTTP/1.0\\r\\n\\r\\n')))\n");
  EXPECT_EQ(get(NetworkRig::name), std::vector<std::string>{"200"});
  const auto ended = waiting.get();
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->out, testing::AnyOf("502\n", "504\n"));
  // The resolver asks twice for each kind of address, also when nobody waits any more.
  EXPECT_TRUE(sandbox_runtime::host::HostRig::eventually([&] { return *asked >= 4; }));
}

TEST_F(DnsAttack, NeitherFilesOfTheSandboxNorOfTheMachineNameAddresses) {  // ADV-C35, V16
  const std::string tried =
      rig.shell(rig.open_sandbox(),
                "{ echo '127.0.0.2 allowed.example.com' >> /etc/hosts; echo nameserver 127.0.0.1 > "
                "/etc/resolv.conf; } 2>&1; export HOSTALIASES=/tmp/aliases LOCALDOMAIN=example.com "
                "RES_OPTIONS=ndots:5; curl -s -m 10 http://" +
                    rig.authority() + "/; curl -s -o /dev/null -w '%{http_code}' -m 10 http://localhost:" +
                    std::to_string(rig.trap.port()) + "/");
  EXPECT_THAT(tried, HasSubstr("hello"));
  // "localhost" stands in the machine's /etc/hosts, which is not read; curl does not even ask for it
  // elsewhere.
  const std::string port = std::to_string(rig.trap.port());
  EXPECT_EQ(rig.statuses(rig.open_sandbox(), {get_head("localhost:" + port)}),
            std::vector<std::string>{"502"});
}

TEST_F(DnsAttack, TheNameServerIsNobodysTarget) {  // V16, FR-164
  rig.dns.on("resolver.example.com", std::vector<std::string>{"127.0.0.1"});
  const std::string target = "resolver.example.com:" + std::to_string(rig.dns.port());
  for (const std::string& status :
       rig.statuses(rig.open_sandbox(), {connect_head(target), get_head(target),
                                         connect_head("127.0.0.1:" + std::to_string(rig.dns.port()))})) {
    EXPECT_EQ(status, "403");
  }
  EXPECT_THAT(rig.python(rig.open_sandbox(),
                         "print(ask(b'GET http://" + target + "/ HTTP/1.0\\r\\n\\r\\n').decode())"),
              HasSubstr("rule: resolver"));
}

}  // namespace
}  // namespace sandglass::tests::security
