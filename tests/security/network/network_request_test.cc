// Requests that try to make the proxy go where it must not, or to be read in two ways.
#include "tests/security/network/network_rig.h"

namespace sandglass::tests::security {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

class RequestAttack : public NetworkAttack {
 protected:
  /// Every form in which a target can be asked for (FR-158).
  std::vector<std::string> forms(const std::string& target) const {
    return {connect_head(target),
            "CONNECT " + target + " HTTP/1.0\r\n\r\n",
            get_head(target),
            "POST http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\nContent-Length: 1\r\n\r\nx",
            "GET http://" + target + "/ HTTP/1.0\r\n\r\n",
            "GET ws://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: " + target + "\r\n\r\n",
            "OPTIONS http://" + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"};
  }
  void expect_all_forms_refused(const provider::SandboxRef& sandbox,
                                const std::vector<std::string>& targets) {
    std::vector<std::string> requests;
    for (const std::string& target : targets) {
      for (std::string& form : forms(target)) requests.push_back(std::move(form));
    }
    expect_refused(sandbox, requests);
  }
};

TEST_F(RequestAttack, WhatNoRuleAllowsIsRefusedInEveryForm) {  // ADV-C3, ADV-C27, FR-158
  expect_all_forms_refused(rig.open_sandbox(),
                           {"denied.example.com:80", "denied.example.com:443", "dns.google:443",
                            "cloudflare-dns.com:443", "example.com:80"});
}

TEST_F(RequestAttack, ASandboxWithoutRulesGoesNowhere) {  // ADV-C5
  expect_all_forms_refused(rig.closed_sandbox(), {rig.authority(), "denied.example.com:443"});
}

TEST_F(RequestAttack, DataInANameNeverReachesANameServer) {  // FR-163
  expect_all_forms_refused(rig.open_sandbox(), {"c2VjcmV0LWRhdGE.evil.example.net:443",
                                                std::string(63, 'a') + ".evil.example.net:80"});
}

TEST_F(RequestAttack, OnlyListedPortsAndPlainNumbersOfPorts) {  // ADV-C6
  std::vector<std::string> targets;
  for (const char* port : {":22", ":25", ":6379", ":0", ":65536", ":4294967739", "", ":", ":0x1bb", ":+443",
                           ":0443", ":443 ", ":-1", ":443:443", ":４４３"}) {
    targets.push_back(std::string(NetworkRig::name) + port);
  }
  std::vector<std::string> requests;
  for (const std::string& target : targets) requests.push_back("CONNECT " + target + " HTTP/1.1\r\n\r\n");
  expect_refused(rig.open_sandbox(), requests);
}

TEST_F(RequestAttack, EveryWritingOfAnAddressIsRefused) {  // ADV-C7, ADV-C9, FR-160
  std::vector<std::string> targets;
  const std::string port = ":" + std::to_string(rig.trap.port());
  for (const std::string host : {"127.0.0.1",
                                 "127.1",
                                 "2130706433",
                                 "0x7f.1",
                                 "0x7f000001",
                                 "0177.0.0.1",
                                 "017700000001",
                                 "127.0.0.1.",
                                 "0",
                                 "0.0.0.0",
                                 "localhost",
                                 "LOCALHOST.",
                                 "127.0.0.1%00",
                                 "127.0.0.1%2e",
                                 "１２７.0.0.1",
                                 "①②⑦.0.0.1",
                                 "[::1]",
                                 "[::]",
                                 "::1",
                                 "[::ffff:127.0.0.1]",
                                 "[::ffff:7f00:1]",
                                 "[64:ff9b::7f00:1]",
                                 "[::1%25lo]",
                                 "[::1",
                                 "::1]",
                                 "[[::1]]",
                                 "[127.0.0.1]",
                                 "[0:0:0:0:0:0:0:1]",
                                 "127.0.0.1@allowed.example.com",
                                 "127。0。0。1"}) {
    targets.push_back(host + port);
  }
  for (const std::string& target : targets) {
    std::vector<std::string> requests = {
        "CONNECT " + target + " HTTP/1.1\r\n\r\n",
        "GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n"};
    const auto got = rig.statuses(rig.open_sandbox(), requests);
    for (const std::string& status : got) {
      // "localhost" has a rule and so may be looked up; the test's name server knows none.
      EXPECT_TRUE(status == "403" || status == "400" || (status == "502" && target.starts_with("l")) ||
                  (status == "502" && target.starts_with("L")))
          << target << " got " << status;
    }
  }
}

TEST_F(RequestAttack, MetadataServicesAndEverySpecialRangeAreRefusedAlsoByName) {  // ADV-C10, ADV-C11, FR-161
  std::vector<std::string> literals;
  int number = 0;
  std::vector<std::string> names;
  for (const char* address : {"169.254.169.254",
                              "100.100.100.200",
                              "192.0.0.192",
                              "168.63.129.16",
                              "169.254.170.2",
                              "0.1.2.3",
                              "10.1.2.3",
                              "100.64.0.1",
                              "127.0.0.1",
                              "127.9.9.9",
                              "169.254.1.1",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.8",
                              "192.0.2.7",
                              "192.88.99.1",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.7",
                              "203.0.113.7",
                              "224.0.0.1",
                              "239.255.255.255",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::1",
                              "::",
                              "::ffff:8.8.8.8",
                              "64:ff9b::808:808",
                              "fc00::1",
                              "fd00:ec2::254",
                              "fe80::1",
                              "ff02::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "2001:0:1::1",
                              "100::1"}) {
    const bool v6 = std::string_view(address).find(':') != std::string_view::npos;
    literals.push_back((v6 ? "[" + std::string(address) + "]" : address) + ":80");
    names.push_back("n" + std::to_string(++number) + ".targets.example.com");
    rig.dns.on(names.back(), std::vector<std::string>{address});
  }
  expect_all_forms_refused(rig.open_sandbox(), literals);
  expect_refused(rig.open_sandbox(),
                 {connect_head("metadata.google.internal:80"), get_head("metadata.google.internal:80")});
  // With a rule for the name, its address decides, and the answer says so.
  std::vector<std::string> requests;
  for (const std::string& each : names) requests.push_back(get_head(each + ":80"));
  for (const std::string& status : rig.statuses(rig.open_sandbox(), requests)) EXPECT_EQ(status, "403");
  EXPECT_THAT(rig.python(rig.open_sandbox(),
                         "print(ask(b'GET http://n1.targets.example.com/ HTTP/1.0\\r\\n\\r\\n').decode())"),
              HasSubstr("special-range:metadata"));
}

TEST_F(RequestAttack, TheMachinesOwnAddressesAreRefusedAlsoByName) {  // ADV-C11, ADV-C34
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  std::vector<std::string> requests;
  int number = 0;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto address = engine::net::Address::from_sockaddr(entry->ifa_addr);
    if (!address) continue;
    const std::string each = "own" + std::to_string(++number) + ".targets.example.com";
    rig.dns.on(each, std::vector<std::string>{address->text()});
    requests.push_back(get_head(each + ":" + std::to_string(rig.trap.port())));
    requests.push_back(connect_head(each + ":" + std::to_string(rig.trap.port())));
  }
  ::freeifaddrs(list);
  ASSERT_FALSE(requests.empty());
  for (const std::string& status : rig.statuses(rig.open_sandbox(), requests)) EXPECT_EQ(status, "403");
}

TEST_F(RequestAttack, NamesThatLookLikeAnAllowedOneAreNot) {  // ADV-C17, ADV-C18, ADV-C19, FR-160
  const std::string allowed = NetworkRig::name;
  const std::string port = ":" + std::to_string(rig.origin.port());
  std::vector<std::string> requests;
  for (const std::string& host : std::vector<std::string>{"evil.com\0."s + allowed,
                                                          allowed + "\0.evil.com"s,
                                                          allowed + "%2eevil.com",
                                                          allowed + "%00.evil.com",
                                                          allowed + "@evil.com",
                                                          "evil.com@" + allowed,
                                                          "evil.com#" + allowed,
                                                          allowed + "#.evil.com",
                                                          "evil" + allowed,
                                                          allowed + ".evil.com",
                                                          allowed + "\t",
                                                          allowed + " .evil.com",
                                                          allowed + "\\.evil.com",
                                                          allowed + "/.evil.com",
                                                          "." + allowed,
                                                          allowed + "..",
                                                          "allowed..example.com",
                                                          "xn--allowed-.example.com",
                                                          "allowed.example.com\xe2\x80\x8b"s,
                                                          "\xd0\xb0llowed.example.com"s,
                                                          "allowed.ex\xc3\xa4mple.com"s,
                                                          "allowed.example.c\xd0\xbem"s,
                                                          "*.example.com",
                                                          "allowed_example.com",
                                                          "-" + allowed,
                                                          "[" + allowed + "]",
                                                          allowed + "?",
                                                          "http://" + allowed,
                                                          "//" + allowed}) {
    requests.push_back("CONNECT " + host + port + " HTTP/1.1\r\n\r\n");
    requests.push_back("GET http://" + host + port + "/ HTTP/1.1\r\nHost: " + host + port + "\r\n\r\n");
  }
  requests.push_back("CONNECT " + allowed + "\r\nX: y" + port + " HTTP/1.1\r\n\r\n");
  requests.push_back("CONNECT " + allowed + "\n" + port + " HTTP/1.1\r\n\r\n");
  // A path may hold whatever it likes, so that "allowed/…" is the allowed host at another port.
  expect_refused(rig.open_sandbox(), requests);
  // Other spellings of the same name are the same name.
  EXPECT_EQ(rig.statuses(rig.open_sandbox(),
                         {get_head("ALLOWED.example.COM" + port), get_head(allowed + "." + port)}),
            (std::vector<std::string>{"200", "200"}));
}

TEST_F(RequestAttack, WhatTwoReadersCouldReadDifferentlyIsRefused) {  // ADV-C22, ADV-C23
  const std::string at = rig.authority();
  const std::string line = "POST http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n";
  const std::string inner = "GET http://denied.example.com/ HTTP/1.1\r\nHost: denied.example.com\r\n\r\n";
  expect_refused(rig.open_sandbox(),
                 {line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
                  line + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + inner,
                  line + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd" + inner,
                  line + "Content-Length: 4, 4\r\n\r\nabcd",
                  line + "Content-Length: +4\r\n\r\nabcd",
                  line + "Content-Length: 0x4\r\n\r\nabcd",
                  line + "Content-Length: -1\r\n\r\n",
                  line + "Content-Length: 99999999999999999999\r\n\r\n",
                  line + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
                  line + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
                  line + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                  line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  line + "Transfer-Encoding:\x0b"
                         "chunked\r\n\r\n0\r\n\r\n",
                  line + "X: a\r\n b\r\n\r\n",
                  line + "X: a\r\n\tb\r\n\r\n",
                  "GET http://" + at + "/ HTTP/1.1\nHost: " + at + "\n\n",
                  line + "X: a\nY: b\r\n\r\n",
                  line + "X: a\rY: b\r\n\r\n",
                  line + "Host: denied.example.com\r\n\r\n",
                  "GET http://" + at + "/ HTTP/1.1\r\nHost: denied.example.com\r\n\r\n",
                  "GET http://" + at + "/ HTTP/1.1\r\n\r\n",
                  line + "X y\r\n\r\n",
                  line + ": x\r\n\r\n",
                  line + "X\0: y\r\n\r\n"s,
                  "GET  http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
                  "GET http://" + at + "/ HTTP/1.1 x\r\nHost: " + at + "\r\n\r\n",
                  "get http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
                  "GET http://" + at + "/ HTTP/2.0\r\nHost: " + at + "\r\n\r\n",
                  "\r\nGET http://" + at + "/ HTTP/1.1\r\n\r\n",
                  line + "Connection: Host\r\n\r\n",
                  line + "Connection: Content-Length\r\nContent-Length: 1\r\n\r\nx",
                  "GET http://" + at + "/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  "\x16\x03\x01\x02\r\n\r\n",
                  "\x05\x01\x00\r\n\r\n"s,
                  "\x04\x01\x00\x50\x7f\x00\x00\x01\x00\r\n\r\n"s});
}

TEST_F(RequestAttack, OverlongHeadsAndEndlessHeadersAreCutOff) {  // ADV-C23
  const int requested = rig.origin_requests();
  const std::string code = R"py(
at=b'allowed.example.com:%d'%PORT
line=b'GET http://'+at+b'/ HTTP/1.1\r\nHost: '+at+b'\r\n'
print(status(ask(line+b'X: '+b'a'*(1<<20)+b'\r\n\r\n')))
print(status(ask(line+b'X: a\r\n'*100000+b'\r\n')))
print(status(ask(b'GET http://'+at+b'/'+b'a'*(1<<20)+b' HTTP/1.1\r\nHost: '+at+b'\r\n\r\n')))
print(status(ask(b'A'*(1<<20))))
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "400\n400\n400\n400\n");
  EXPECT_EQ(rig.origin_requests(), requested);
}

TEST_F(RequestAttack, MalformedChunksEndTheConnectionAndNothingBehindThemIsARequest) {  // ADV-C23
  const std::string at = rig.authority();
  const std::string line =
      "POST http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string inner = "GET http://" + at + "/smuggled HTTP/1.1\r\nHost: " + at + "\r\n\r\n";
  std::vector<std::string> requests;
  for (const std::string& body :
       {"zz\r\n"s, "1\r\nab\r\n0\r\n\r\n"s, "fffffffffffffffff\r\n"s, "0x1\r\na\r\n0\r\n\r\n"s, "-1\r\n"s,
        "1;" + std::string(1000, 'x') + "\r\na\r\n0\r\n\r\n", "1\na\n0\n\n"s, "1\r\na0\r\n\r\n"s, "\r\n"s,
        " 1\r\na\r\n0\r\n\r\n"s}) {
    requests.push_back(line + body + inner);
  }
  for (const std::string& status : rig.statuses(rig.open_sandbox(), requests)) EXPECT_EQ(status, "400");
  EXPECT_EQ(rig.origin_saw().find("smuggled"), std::string::npos);
}

TEST_F(RequestAttack, NoOtherProtocolIsSpoken) {  // ADV-C25, ADV-C26
  const std::string at = rig.authority();
  expect_refused(
      rig.open_sandbox(),
      {get_head(at,
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
       get_head(at, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
       get_head(at, "Upgrade: h2c\r\n"), get_head(at, "Connection: upgrade\r\n"),
       get_head(at, "Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
       "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
       "GET https://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
       "GET ftp://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
       "GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"});
}

TEST_F(RequestAttack, WhoAsksIsKnownByTheListenerAndByNothingThatIsSent) {  // ADV-C31, V15
  const std::string at = rig.authority();
  for (const char* header :
       {"Proxy-Authorization: Basic b3Blbjpw\r\n", "Proxy-Authorization: Bearer open\r\n",
        "X-Sandglass-Sandbox: open\r\n", "X-Forwarded-For: 127.0.0.1\r\n", "Forwarded: for=open\r\n",
        "Via: 1.1 sandglass\r\n"}) {
    expect_refused(rig.closed_sandbox(), {get_head(at, header)});
  }
  EXPECT_EQ(rig.statuses(rig.open_sandbox(), {get_head(at, "Proxy-Authorization: Basic Y2xvc2VkOnA=\r\n")}),
            std::vector<std::string>{"200"});
  EXPECT_EQ(rig.origin_saw().find("Proxy-Authorization"), std::string::npos);
}

TEST_F(RequestAttack, WhoMayOnlyReadFromAHostSendsItNothing) {  // ADV-C30
  const auto reader =
      rig.make("reader", {{"read-only", NetworkRig::name, {rig.origin.port()}, {"GET", "HEAD"}}});
  const std::string at = rig.authority();
  std::vector<std::string> requests = {connect_head(at)};
  for (const char* method : {"PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "GETX", "get"}) {
    requests.push_back(std::string(method) + " http://" + at + "/ HTTP/1.1\r\nHost: " + at +
                       "\r\nContent-Length: 4\r\n\r\ndata");
  }
  expect_refused(reader, requests);
  const int requested = rig.origin_requests();
  EXPECT_EQ(rig.statuses(reader, {get_head(at)}), std::vector<std::string>{"200"});
  EXPECT_EQ(rig.origin_requests(), requested + 1);
  EXPECT_TRUE(rig.host.destroy(reader));
}

TEST_F(RequestAttack, ARefusalSaysThatItIsADecisionAndWhichAndIsLogged) {  // FR-167, N6
  const std::string answer =
      rig.python(rig.open_sandbox(),
                 "print(ask(b'GET http://denied.example.com/secret?q HTTP/1.0\\r\\n\\r\\n').decode())");
  EXPECT_THAT(answer, HasSubstr("403 Forbidden"));
  EXPECT_THAT(answer, HasSubstr("rule: default-deny"));
  EXPECT_THAT(answer, HasSubstr("do not retry"));
  EXPECT_THAT(answer, HasSubstr("retry=no"));
  const auto logged = [&] {
    for (const std::string& verdict : rig.host.verdicts()) {
      if (verdict.find("denied.example.com") != std::string::npos &&
          verdict.find("\"run\":\"run-of-open\"") != std::string::npos &&
          verdict.find("\"token\":3") != std::string::npos && verdict.find("secret") == std::string::npos)
        return true;
    }
    return false;
  };
  EXPECT_TRUE(sandbox_runtime::host::HostRig::eventually(logged));
}

TEST_F(RequestAttack, BodiesReachTheOriginAsTheyWereSent) {  // FR-168
  const std::string at = rig.authority();
  rig.statuses(rig.open_sandbox(), {"PUT http://" + at + "/x HTTP/1.1\r\nHost: " + at +
                                    "\r\nContent-Length: 5\r\n\r\na\0b\r\n"s});
  ASSERT_TRUE(sandbox_runtime::host::HostRig::eventually([&] {
    return rig.origin_saw().ends_with("\r\n\r\na\0b\r\n"s);
  })) << rig.origin_saw();
  EXPECT_THAT(rig.origin_saw(), HasSubstr("Content-Length: 5\r\n"));
  rig.statuses(rig.open_sandbox(),
               {"PUT http://" + at + "/y HTTP/1.1\r\nHost: " + at +
                "\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n3;e=1\r\nabc\r\n0\r\nT: v\r\n\r\n"});
  EXPECT_TRUE(sandbox_runtime::host::HostRig::eventually([&] {
    return rig.origin_saw().ends_with("\r\n\r\n3;e=1\r\nabc\r\n0\r\nT: v\r\n\r\n");
  })) << rig.origin_saw();
}

}  // namespace
}  // namespace sandglass::tests::security
