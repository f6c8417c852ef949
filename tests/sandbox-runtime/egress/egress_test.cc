#include "tests/sandbox-runtime/egress/egress_fixture.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

TEST_F(EgressTest, AnAllowedRequestReachesTheOriginWithOnlyTheNeededChanges) {
  // FR-168
  const std::string back =
      exchange(request("GET", "X-mIxed: a  b\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n"));
  EXPECT_EQ(back, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Origin: yes\r\n\r\nok");
  ASSERT_EQ(seen().size(), 1u);
  EXPECT_EQ(seen()[0], "GET /x?q=1 HTTP/1.1\r\nHost: " + authority() +
                           "\r\nX-mIxed: a  b\r\nAccept: */*\r\nConnection: close\r\n\r\n");
  const auto verdict = host->next_verdict();
  EXPECT_TRUE(verdict.allowed());
  EXPECT_TRUE(verdict.internal());
  EXPECT_EQ(verdict.address(), "127.0.0.1");
  EXPECT_EQ(verdict.sandbox(), "s1");
  EXPECT_EQ(verdict.token(), 1u);
  EXPECT_EQ(verdict.run(), "run-1");
  EXPECT_EQ(verdict.rule(), "allowed");
  const auto usage = host->next_usage();
  EXPECT_EQ(usage.http_status(), 200u);
  EXPECT_GT(usage.bytes_out(), 0u);
}

TEST_F(EgressTest, EveryFormOfRequestToADeniedHostGetsTheSameAnswerAndNoLookUp) {
  // FR-158, FR-163, FR-167
  const std::string denied[] = {
      "GET http://secret.evil.example/ HTTP/1.1\r\nHost: secret.evil.example\r\n\r\n",
      "GET http://secret.evil.example/ HTTP/1.0\r\n\r\n",
      "POST http://secret.evil.example/ HTTP/1.1\r\nHost: secret.evil.example\r\nContent-Length: "
      "3\r\n\r\nabc",
      connect_head("secret.evil.example:443"),
      connect_head(name + ":22"),
      connect_head("127.0.0.1:" + std::to_string(origin.port())),
      connect_head("[::1]:443"),
      "GET http://127.0.0.1:" + std::to_string(origin.port()) + "/ HTTP/1.0\r\n\r\n",
      "GET http://x" + authority() + "/ HTTP/1.0\r\n\r\n",
      "GET http://" + name + ".evil.example/ HTTP/1.0\r\n\r\n",
  };
  for (const std::string& bytes : denied) {
    const std::string back = exchange(bytes);
    EXPECT_TRUE(back.starts_with("HTTP/1.1 403 Forbidden\r\n")) << bytes << back;
    EXPECT_NE(back.find("X-Sandglass-Verdict: denied; policy=\"code\"; rule=\"default-deny\"; retry=no"),
              std::string::npos)
        << back;
    EXPECT_NE(back.find("do not retry"), std::string::npos);
    const auto verdict = host->next_verdict();
    EXPECT_FALSE(verdict.allowed());
    EXPECT_EQ(verdict.code(), static_cast<std::uint32_t>(Code::policy_denied));
  }
  EXPECT_EQ(dns.queries(), 0);
  EXPECT_EQ(origin.connections(), 0);
}

TEST_F(EgressTest, AnAllowedNameWithARefusedAddressIsDenied) {
  // ADV-C13 to C15: the name is allowed, its address is not, and no server configuration excepts it.
  const std::string target = "internal.example.com:" + std::to_string(origin.port());
  for (const std::string& bytes : {connect_head(target), "GET http://" + target + "/ HTTP/1.0\r\n\r\n"}) {
    const std::string back = exchange(bytes);
    EXPECT_TRUE(back.starts_with("HTTP/1.1 403 ")) << back;
    EXPECT_NE(back.find("special-range:loopback"), std::string::npos) << back;
    EXPECT_EQ(host->next_verdict().rule(), "special-range:loopback");
  }
  EXPECT_EQ(origin.connections(), 0);
}

TEST_F(EgressTest, MalformedTargetsAndSmuggledRequestsAre400AndNothingIsSentOn) {
  // ADV-C6, C7, C17, C18, C22, C23
  const std::string port = std::to_string(origin.port());
  std::vector<std::string> refused;
  const std::string targets[] = {name,
                                 name + ":",
                                 name + ":0",
                                 name + ":65536",
                                 name + ":0x50",
                                 "127.1:80",
                                 "2130706433:80",
                                 "0x7f.1:80",
                                 "0177.0.0.1:80",
                                 "0:80",
                                 "127.0.0.1%00:80",
                                 "[evil.com]:80",
                                 "::1:80",
                                 "evil.com%00." + name + ":80",
                                 "a@" + name + ":80",
                                 name + "#:80",
                                 "http://" + authority()};
  for (const std::string& target : targets) {
    refused.push_back("CONNECT " + target + " HTTP/1.1\r\n\r\n");
  }
  refused.push_back("CONNECT evil.com\0."s + name + ":80 HTTP/1.1\r\n\r\n");
  refused.push_back("CONNECT " + authority() + " HTTP/1.1\r\nHost: other.example:" + port + "\r\n\r\n");
  refused.push_back("CONNECT " + authority() + " HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
  refused.push_back("CONNECT " + authority() + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  refused.push_back("GET / HTTP/1.1\r\nHost: " + authority() + "\r\n\r\n");
  refused.push_back("GET https://" + authority() + "/ HTTP/1.1\r\nHost: " + authority() + "\r\n\r\n");
  refused.push_back("GET http://u:p@" + authority() + "/ HTTP/1.1\r\nHost: " + authority() + "\r\n\r\n");
  refused.push_back("GET http://" + authority() + "/ HTTP/1.1\r\nHost: other.example\r\n\r\n");
  refused.push_back("GET http://" + authority() + "/ HTTP/1.1\r\n\r\n");
  refused.push_back("GET http://" + authority() + "/ HTTP/1.1\r\nHost: " + authority() +
                    "\r\nHost: " + authority() + "\r\n\r\n");
  refused.push_back("GET ftp://" + authority() + "/ HTTP/1.1\r\nHost: " + authority() + "\r\n\r\n");
  refused.push_back(
      request("POST", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nGET http://evil/"));
  refused.push_back(request("POST", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"));
  refused.push_back(request("POST", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"));
  refused.push_back(request("GET", "X: a\r\n b\r\n"));
  refused.push_back(request("GET", "X: a\nY: b\r\n"));
  refused.push_back(request("GET", "Connection: host\r\n"));
  refused.push_back(request("GET", "X: " + std::string(1 << 20, 'a') + "\r\n"));
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "A: b\r\n";
  refused.push_back(request("GET", many));
  refused.push_back("\x16\x03\x01\x02\r\n\r\n");
  refused.push_back("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  for (const std::string& bytes : refused) {
    const std::string back = exchange(bytes);
    EXPECT_TRUE(back.starts_with("HTTP/1.1 400 ")) << testing::PrintToString(bytes.substr(0, 200)) << "\n"
                                                   << back;
    // One answer: the connection was not used again for what followed.
    EXPECT_EQ(back.find("HTTP/1.1", 1), std::string::npos) << back;
    EXPECT_EQ(host->next_verdict().rule(), "malformed");
  }
  EXPECT_EQ(origin.connections(), 0);
  EXPECT_EQ(dns.queries(), 0);
}

TEST_F(EgressTest, UpgradesAreRefused) {
  // ADV-C25
  for (const char* lines : {"Connection: Upgrade\r\nUpgrade: websocket\r\n",
                            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n",
                            "Connection: upgrade\r\n", "Upgrade: websocket\r\n"}) {
    const std::string back = exchange(request("GET", lines));
    EXPECT_TRUE(back.starts_with("HTTP/1.1 403 ")) << back;
    EXPECT_NE(back.find("no-upgrade"), std::string::npos);
  }
  EXPECT_EQ(origin.connections(), 0);
  // Nor can the origin do it.
  set_answer([](Peer& peer, const std::string&) {
    peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
  });
  EXPECT_TRUE(exchange(request("GET")).starts_with("HTTP/1.1 502 "));
}

TEST_F(EgressTest, BodiesKeepTheirFramingAndBytesBothWays) {
  // FR-168: length, chunked with extension and trailer, 100-continue, HEAD, 204, end by closing.
  const std::string chunked = "5;x=1\r\nhello\r\n0\r\nT: v\r\n\r\n";
  set_answer([&](Peer& peer, const std::string&) {
    const std::string body = peer.read_until("T: v\r\n\r\n");
    saw(body);
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n" + chunked);
  });
  EXPECT_EQ(exchange(request("PUT", "Transfer-Encoding: chunked\r\nTrailer: T\r\n", chunked)),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n" + chunked);
  EXPECT_EQ(seen()[1], chunked);

  set_answer([&](Peer& peer, const std::string&) {
    peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    saw(peer.read_exactly(5));
    peer.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
  });
  Peer client = connect_to(proxy_port);
  client.send(request("POST", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 201 Created"));
  EXPECT_EQ(seen()[3], "hello");

  set_answer(
      [](Peer& peer, const std::string&) { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"); });
  EXPECT_EQ(exchange(request("HEAD")), "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
  set_answer([](Peer& peer, const std::string&) { peer.send("HTTP/1.1 204 No Content\r\n\r\n"); });
  EXPECT_EQ(exchange(request("DELETE")), "HTTP/1.1 204 No Content\r\n\r\n");
  set_answer([](Peer& peer, const std::string&) { peer.send("HTTP/1.0 200 OK\r\n\r\nuntil the end"); });
  EXPECT_EQ(exchange(request("GET")), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
}

TEST_F(EgressTest, ALargeBodyPassesBothWaysUnchanged) {
  std::string large(5 << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 13);
  set_answer([&](Peer& peer, const std::string&) {
    const std::string body = peer.read_exactly(large.size());
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  Peer client = connect_to(proxy_port);
  client.send(request("POST", "Content-Length: " + std::to_string(large.size()) + "\r\n"));
  std::thread writer([&] { client.send(large); });
  client.read_until("\r\n\r\n");
  EXPECT_TRUE(client.read_exactly(large.size()) == large);
  writer.join();
}

TEST_F(EgressTest, OneConnectionCarriesSeveralRequestsEachWithItsOwnDecision) {
  Peer client = connect_to(proxy_port);
  for (int i = 0; i < 3; ++i) {
    client.send(request("GET"));
    EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
    EXPECT_EQ(client.read_exactly(2), "ok");
  }
  client.send("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n" + request("GET"));
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(origin.connections(), 3);
}

TEST_F(EgressTest, BadAnswersOfTheOriginDoNotReachTheClient) {
  for (const char* bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 99 X\r\n\r\n", "", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"}) {
    set_answer([=](Peer& peer, const std::string&) { peer.send(bytes); });
    EXPECT_TRUE(exchange(request("GET")).starts_with("HTTP/1.1 502 ")) << bytes;
  }
}

TEST_F(EgressTest, ATruncatedAnswerIsSeenAsTruncated) {
  set_answer(
      [](Peer& peer, const std::string&) { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"); });
  const std::string back = exchange(request("GET"));
  EXPECT_TRUE(back.ends_with("\r\n\r\nabc")) << back;
}

TEST_F(EgressTest, AMalformedChunkedBodyIs400) {
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  EXPECT_TRUE(exchange(request("POST", "Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n"))
                  .starts_with("HTTP/1.1 400 "));
}

TEST_F(EgressTest, ATunnelCarriesBytesBothWaysAndHalfCloses) {
  set_answer([](Peer& peer, const std::string& first) {
    peer.send("echo:" + first);
    peer.send(peer.read_all() + ":bye");
  });
  Peer client = tunnel();
  client.send("hello\r\n\r\n");
  EXPECT_EQ(client.read_exactly(14), "echo:hello\r\n\r\n");
  client.send("more");
  client.end_sending();
  EXPECT_EQ(client.read_all(), "more:bye");
  const auto usage = host->next_usage();
  EXPECT_EQ(usage.method(), "CONNECT");
  EXPECT_EQ(usage.bytes_out(), 13u);
  EXPECT_EQ(usage.bytes_in(), 22u);
}

TEST_F(EgressTest, ATunnelMustBeTlsForTheNameItWasAllowedFor) {
  // SPEC N2, FR-165, ADV-C21
  raw_tunnel = false;
  ASSERT_EQ(begin_lease(2).code(), 0u);
  const std::string good = tests::support::client_hello(name);
  {
    Peer client = tunnel();
    client.send(good + "\r\n\r\n");
    EXPECT_EQ(client.read_until("ok"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Origin: yes\r\n\r\nok");
    EXPECT_EQ(seen().back(), good + "\r\n\r\n");
  }
  {
    Peer client = tunnel();
    const std::string split =
        tests::support::split_records(tests::support::client_hello("ALLOWED.example.com"), 9);
    for (const char byte : split) client.send(std::string(1, byte));
    client.send("\r\n\r\n");
    EXPECT_FALSE(client.read_until("ok").empty());
    EXPECT_EQ(seen().back(), split + "\r\n\r\n");
  }
  (void)host->next_verdict();
  (void)host->next_verdict();
  const std::size_t before = seen().size();
  for (const std::string& bytes :
       {tests::support::client_hello("evil.example.com"), tests::support::client_hello(""),
        "GET / HTTP/1.1\r\n\r\n"s, tests::support::client_hello(name, {.encrypted = true}),
        "SSH-2.0-OpenSSH\r\n\r\n"s,
        std::string("\x16\x03\x01\x40\x00", 5) + '\x01' + std::string("\xff\xff\xff", 3) +
            std::string(16380, 'x')}) {
    Peer client = tunnel();
    client.send(bytes);
    EXPECT_TRUE(client.ends_within(5000));
    EXPECT_TRUE(host->next_verdict().allowed());
    const auto verdict = host->next_verdict();
    EXPECT_FALSE(verdict.allowed());
    EXPECT_EQ(verdict.rule(), "server-name");
  }
  // Not one byte of them reached the origin.
  for (std::size_t i = before; i < seen().size(); ++i) EXPECT_EQ(seen()[i], "");
}

TEST_F(EgressTest, TunnelsCloseBeforeTheEndOfTheirLeaseIsAnswered) {
  // V15
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  Peer client = tunnel();
  client.send("x\r\n\r\n");
  const auto ended = end_lease(1);
  EXPECT_EQ(ended.code(), 0u);
  EXPECT_EQ(ended.counters().accepted(), 1u);
  EXPECT_TRUE(client.ends_within(0));
  EXPECT_TRUE(exchange(connect_head(authority())).starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(begin_lease(1).code(), static_cast<std::uint32_t>(Code::lease_fenced));
  EXPECT_EQ(begin_lease(2).code(), 0u);
  EXPECT_EQ(end_lease(1).code(), static_cast<std::uint32_t>(Code::lease_fenced));
  Peer next = tunnel();
  EXPECT_EQ(begin_lease(3).code(), 0u);
  EXPECT_TRUE(next.ends_within(0));
}

TEST_F(EgressTest, NarrowedRulesCloseWhatTheyNoLongerAllow) {
  // ADV-C33
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  Peer client = tunnel();
  pb::EgressRequest same;
  same.mutable_set_rules()->set_sandbox("s1");
  same.mutable_set_rules()->set_token(1);
  add_rules(*same.mutable_set_rules()->mutable_rules());
  ASSERT_EQ(host->call(same).code(), 0u);
  EXPECT_FALSE(client.ends_within(20));
  pb::EgressRequest none;
  none.mutable_set_rules()->set_sandbox("s1");
  none.mutable_set_rules()->set_token(1);
  ASSERT_EQ(host->call(none).code(), 0u);
  EXPECT_TRUE(client.ends_within(0));
  EXPECT_TRUE(exchange(connect_head(authority())).starts_with("HTTP/1.1 403 "));
}

TEST_F(EgressTest, BadRulesAndDescriptorsAreRefusedByName) {
  pb::EgressRequest request;
  request.mutable_begin_lease()->set_sandbox("s1");
  request.mutable_begin_lease()->set_token(9);
  request.mutable_begin_lease()->add_rules()->set_host("*.com");
  const auto refused = host->call(request);
  EXPECT_EQ(refused.code(), static_cast<std::uint32_t>(Code::config_invalid));
  EXPECT_NE(refused.message().find("*.com"), std::string::npos);
  pb::EgressRequest none;
  none.mutable_add_listener()->set_sandbox("s2");
  EXPECT_EQ(host->call(none).code(), static_cast<std::uint32_t>(Code::invalid_argument));
}

TEST_F(EgressTest, TheHostsEndClosesEverythingAndTheNextOneStartsAnew) {
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  Peer client = tunnel();
  host = nullptr;
  EXPECT_TRUE(client.ends_within(5000));
  host = std::make_unique<TestHost>(path);
  ASSERT_EQ(add_listener().code(), 0u);
  ASSERT_EQ(begin_lease(1).code(), 0u);
  EXPECT_EQ(tunnel().fd() >= 0, true);
}

TEST_F(EgressTest, ConnectionsHeadsBodiesAndBytesAreBounded) {
  // ADV-C29, C30
  pb::EgressLimits limits;
  limits.set_max_connections(2);
  limits.set_head_timeout_ms(150);
  limits.set_max_body_bytes(1000);
  limits.set_max_lease_bytes(4000);
  start(limits);
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  {
    Peer slow = connect_to(proxy_port);
    slow.send("GET http://");
    EXPECT_TRUE(slow.ends_within(5000));
  }
  EXPECT_TRUE(exchange(request("POST", "Content-Length: 1001\r\n")).starts_with("HTTP/1.1 413 "));
  {
    Peer one = tunnel();
    Peer two = tunnel();
    EXPECT_TRUE(exchange(connect_head(authority())).starts_with("HTTP/1.1 503 "));
    one.send(std::string(5000, 'x'));
    EXPECT_TRUE(one.ends_within(5000));
  }
  pb::NetworkVerdict verdict;
  do verdict = host->next_verdict();
  while (verdict.rule() != "lease-byte-cap" && !verdict.rule().empty());
  EXPECT_EQ(verdict.code(), static_cast<std::uint32_t>(Code::quota_exceeded));
}

TEST_F(EgressTest, DecisionsWithoutEndAreToldInPartAndCountedInFull) {  // ADV-C29, N6
  constexpr std::uint64_t kAsked = 1'500;
  const std::string denied = "GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n";
  for (std::uint64_t i = 0; i < kAsked; ++i) ASSERT_TRUE(exchange(denied).starts_with("HTTP/1.1 403 "));
  pb::EgressRequest status;
  status.mutable_status();
  EXPECT_EQ(host->call(status).counters().refused(), kAsked);
  ASSERT_EQ(end_lease(1).code(), 0u);
  std::uint64_t told = 0;
  std::uint64_t counted = 0;
  for (pb::NetworkVerdict verdict; verdict.rule() != "end-of-lease"; ++told) {
    verdict = host->next_verdict();
    ASSERT_FALSE(verdict.rule().empty()) << "after " << told;
    counted += verdict.untold();
  }
  --told;  // the last one is no decision
  EXPECT_EQ(told + counted, kAsked);
  EXPECT_GE(counted, 1u);
}

TEST_F(EgressTest, OneSandboxsDecisionsNeverCostTheOthersTheirProxy) {  // ADV-C29
  pb::EgressRequest next;
  next.mutable_begin_lease()->set_sandbox("s1");
  next.mutable_begin_lease()->set_token(2);
  next.mutable_begin_lease()->set_run(
      std::string(100'000, 'r'));  // each is large, so that few fill the queue
  ASSERT_EQ(host->call(next).code(), 0u);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(exchange(request("GET")).starts_with("HTTP/1.1 403 "));
  // a host that was busy meanwhile, and a reply that is larger than what so many leave of the queue
  pb::EgressRequest unknown;
  unknown.mutable_remove_listener()->set_sandbox(std::string(200'000, 'u'));
  EXPECT_EQ(host->call(unknown).code(), static_cast<std::uint32_t>(Code::not_found))
      << "the connection has ended, and with it every sandbox's way out";
  pb::EgressRequest status;
  status.mutable_status();
  EXPECT_GT(host->call(status).counters().events_dropped(), 0u);
}

TEST_F(EgressTest, AnIdleTunnelEnds) {
  pb::EgressLimits limits;
  limits.set_idle_timeout_ms(100);
  start(limits);
  set_answer([](Peer& peer, const std::string&) { peer.read_all(); });
  EXPECT_TRUE(tunnel().ends_within(5000));
}

TEST_F(EgressTest, AFailedConnectionIsNoPolicyRefusal) {
  dns.on(name, [](std::uint16_t, int) { return tests::support::TestDns::Answer{.records = {}, .rcode = 3}; });
  const std::string back = exchange(connect_head(authority()));
  EXPECT_TRUE(back.starts_with("HTTP/1.1 502 ")) << back;
  EXPECT_NE(back.find("X-Sandglass-Error: resolve_failed"), std::string::npos) << back;
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress
