// Intents through the engine-side adapter, the executor, libcurl and real sockets to a server that counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "activities/effects/effect_codec.h"
#include "activities/effects/executor.h"
#include "activities/effects/remote_executor.h"
#include "engine/base/system_ports.h"
#include "engine/net/codec/network_codec.h"
#include "tests/support/raw_server.h"
#include "tests/support/test_dns.h"
#include "tests/support/tls_server.h"

namespace sandglass::activities::effects {
namespace {

using engine::base::Code;
using engine::base::UniqueFd;
using engine::core::EffectIntent;
using engine::core::EffectResult;
using engine::core::Outcome;
using tests::support::Peer;
using tests::support::RawServer;

const std::string name = "receiver.example.com";

class EffectsTest : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    dns.on(name, {"127.0.0.1"});
    start_http();
    start();
  }
  void TearDown() override { stop(); }

  /// An executor on a thread, joined with the adapter by a socketpair as the supervisor makes it.
  void start() {
    stop();
    engine::net::codec::pb::NetworkConfig config;
    config.add_resolvers(dns.endpoint().text());
    for (const auto& [host, port] : internal_targets()) {
      auto* internal = config.add_internal();
      internal->set_host(host);
      internal->set_port(port);
      internal->set_range("127.0.0.1/32");
    }
    gate = std::make_unique<engine::net::Gate>(*engine::net::codec::to_settings(config), clock);
    dialer = std::make_unique<engine::net::Dialer>(*gate, clock);
    world = std::make_unique<EffectWorld>(EffectWorld{*gate, *dialer, clock, {{}, true, ca_file}});
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    engine_end.reset(::dup(pair[0]));
    remote.attach(UniqueFd(pair[0]));
    executor_thread = std::thread([this, fd = pair[1]] {
      Executor executor(*world, limits, UniqueFd(fd));
      EXPECT_TRUE(executor.run());
    });
  }
  void stop() {
    if (!executor_thread.joinable()) return;
    ::shutdown(engine_end.get(), SHUT_RDWR);
    executor_thread.join();
    std::vector<EffectResult> lost;
    remote.poll(lost);
  }
  std::vector<std::pair<std::string, std::uint16_t>> internal_targets() const {
    return {{name, server.port()}, {"127.0.0.1", server.port()}, {name, closed_port}};
  }

  std::string url(const std::string& path = "/pulls", const std::string& scheme = "http") const {
    return scheme + "://" + name + ":" + std::to_string(server.port()) + path;
  }
  EffectIntent intent(const std::string& target, const std::string& body = "body") {
    return {.id = ++last_id,
            .method = "POST",
            .url = target,
            .headers = {{"Idempotency-Key", "k"}},
            .body = body,
            .permit_ms = 60'000,
            .attempt_timeout_ms = 10'000};
  }
  EffectResult run(EffectIntent one) {
    remote.submit(std::move(one));
    return wait_for(1).front();
  }
  std::vector<EffectResult> wait_for(std::size_t count) {
    std::vector<EffectResult> results;
    remote.poll(results);
    while (results.size() < count) {
      pollfd waiting{remote.wake_fd(), POLLIN, 0};
      if (::poll(&waiting, 1, 30'000) <= 0) {
        ADD_FAILURE() << "no answer";
        results.resize(count);
        break;
      }
      remote.poll(results);
    }
    return results;
  }
  void serve(std::function<void(Peer&, const std::string& head)> with) {
    const std::lock_guard lock(mutex);
    handler = std::move(with);
  }
  static std::string body_of(Peer& peer, const std::string& head) {
    const std::size_t at = head.find("Content-Length: ");
    return at == std::string::npos ? "" : peer.read_exactly(std::stoul(head.substr(at + 16)));
  }

  std::mutex mutex;
  std::function<void(Peer&, const std::string&)> handler;
  std::atomic<int> requests = 0;  // whose head came whole
  std::atomic<int> effects = 0;
  engine::base::SystemClock clock;
  tests::support::TestDns dns;
  RawServer server{[this](Peer& peer) {
    std::function<void(Peer&, const std::string&)> with;
    {
      const std::lock_guard lock(mutex);
      with = handler;
    }
    const std::string head = raw ? "" : peer.read_until("\r\n\r\n");
    if (!head.empty()) ++requests;
    if (with) with(peer, head);
  }};
  std::atomic<bool> raw = false;
  std::uint16_t closed_port = [] {
    std::uint16_t port = 0;
    const UniqueFd gone = tests::support::listen_on_loopback(port);
    return port;
  }();
  std::string ca_file;
  ExecutorLimits limits;
  std::unique_ptr<engine::net::Gate> gate;
  std::unique_ptr<engine::net::Dialer> dialer;
  std::unique_ptr<EffectWorld> world;
  RemoteExecutor remote{clock};
  UniqueFd engine_end;  // of the same socket as `remote` has
  std::thread executor_thread;
  std::uint64_t last_id = 0;
};

TEST_F(EffectsTest, AWholeAnswerIsDoneWhateverItsStatus) {
  for (const std::string status : {"201 Created", "404 Not Found", "409 Conflict", "500 Oops", "302 Found"}) {
    serve([&](Peer& peer, const std::string& head) {
      EXPECT_EQ(body_of(peer, head), "body");
      ++effects;
      peer.send("HTTP/1.1 " + status +
                "\r\nContent-Length: 2\r\nLocation: http://127.0.0.1/\r\nX-A: b\r\n\r\n{}");
    });
    const EffectResult result = run(intent(url()));
    EXPECT_EQ(result.outcome, Outcome::done) << result.message;
    EXPECT_EQ(std::to_string(result.http_status), status.substr(0, 3));
    EXPECT_EQ(result.body, "{}");
    ASSERT_EQ(result.headers.size(), 3u);
    EXPECT_EQ(result.headers[2].second, "b");
    EXPECT_NE(result.verdict.find("\"rule\":\"network.internal\""), std::string::npos) << result.verdict;
    EXPECT_NE(result.verdict.find("\"internal\":true"), std::string::npos);
  }
  EXPECT_EQ(effects, 5);  // no redirect was followed
}

TEST_F(EffectsTest, TheRequestIsExactlyTheIntent) {
  std::string seen;
  serve([&](Peer& peer, const std::string& head) {
    seen = head;
    (void)body_of(peer, head);
    peer.send("HTTP/1.1 204 No Content\r\n\r\n");
  });
  auto one = intent(url("/a/../b?x=%20y"), "{}");
  one.headers = {{"Content-Type", "application/json"}, {"X-Empty", ""}};
  EXPECT_EQ(run(one).outcome, Outcome::done);
  EXPECT_EQ(seen,
            "POST /a/../b?x=%20y HTTP/1.1\r\nHost: " + name + ":" + std::to_string(server.port()) +
                "\r\nAccept: */*\r\nContent-Type: application/json\r\nX-Empty:\r\nContent-Length: 2\r\n\r\n");
  for (const char* method : {"GET", "HEAD", "DELETE", "PUT", "PATCH"}) {
    auto other = intent(url(), "");
    other.method = method;
    EXPECT_EQ(run(other).outcome, Outcome::done) << method;
    EXPECT_TRUE(seen.starts_with(method)) << seen;
    EXPECT_EQ(seen.find("Content-Type"), std::string::npos) << seen;
  }
}

TEST_F(EffectsTest, WhatNeverReachedTheTargetIsNotDone) {
  // FR-3 (a): a port that nobody listens at.
  const EffectResult refused =
      run(intent("http://" + name + ":" + std::to_string(closed_port) + "/?k=CANARY"));
  EXPECT_EQ(refused.outcome, Outcome::not_done);
  EXPECT_EQ(refused.code, Code::connect_failed);
  EXPECT_EQ(refused.message.find("CANARY"), std::string::npos);  // FR-173
  // The network rules: an address without exception, a literal, a port, a scheme, user information.
  dns.on("metadata.example.com", {"169.254.169.254"});
  const std::pair<std::string, Code> cases[] = {
      {"http://metadata.example.com/?k=CANARY", Code::address_refused},
      {"http://127.0.0.1:9/?k=CANARY", Code::policy_denied},
      {"http://other.example.com:" + std::to_string(server.port()) + "/?k=CANARY", Code::policy_denied},
      {"http://2130706433/?k=CANARY", Code::name_refused},
      {"ftp://receiver.example.com/?k=CANARY", Code::invalid_argument},
      {"http://user:CANARY@receiver.example.com/", Code::invalid_argument},
      {"http://nowhere.example.com/?k=CANARY", Code::resolve_failed},
  };
  for (const auto& [target, code] : cases) {
    const EffectResult result = run(intent(target));
    EXPECT_EQ(result.outcome, Outcome::not_done) << target;
    EXPECT_EQ(result.code, code) << target << ": " << result.message;
    EXPECT_EQ((result.message + result.verdict).find("CANARY"), std::string::npos)
        << result.message << result.verdict;
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(EffectsTest, HeadersThatSayHowTheMessageTravelsAreRefused) {
  for (const auto& header : std::vector<std::pair<std::string, std::string>>{{"Host", "evil.example"},
                                                                             {"content-length", "0"},
                                                                             {"Transfer-Encoding", "chunked"},
                                                                             {"Connection", "close"},
                                                                             {"Expect", "100-continue"},
                                                                             {"X: y\r\nHost", "a"},
                                                                             {"X", "a\r\nHost: b"},
                                                                             {"", "a"},
                                                                             {"X Y", "a"}}) {
    auto one = intent(url());
    one.headers = {header};
    const EffectResult result = run(one);
    EXPECT_EQ(result.outcome, Outcome::not_done) << header.first;
    EXPECT_EQ(result.code, Code::invalid_argument);
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(EffectsTest, WhatBrokeOffAfterSendingIsUnknownAndIsNeverTriedAgain) {
  // FR-3 (b): commit, then drop; and every other way in which an answer can fail to be whole.
  const std::vector<std::string> answers = {"",
                                            "HTTP/1.1 200 OK\r\nContent-Len",
                                            "HTTP/1.1 200 OK\r\nX: y\r\n",
                                            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
                                            "garbage\r\n\r\n",
                                            "HTTP/1.1 100 Continue\r\n\r\n"};
  for (const bool reset : {false, true}) {
    for (const std::string& answer : answers) {
      requests = 0;
      serve([this, answer, reset](Peer& peer, const std::string& head) {
        (void)body_of(peer, head);
        ++effects;
        peer.send(answer);
        if (reset) peer.reset();
      });
      const EffectResult result = run(intent(url()));
      EXPECT_EQ(result.outcome, Outcome::unknown) << testing::PrintToString(answer) << result.http_status;
      EXPECT_EQ(result.code, Code::operation_unknown);
      EXPECT_EQ(result.body, "");
      EXPECT_EQ(requests, 1) << testing::PrintToString(answer);
    }
  }
}

TEST_F(EffectsTest, ATargetThatHangsIsCutAtTheTimeoutAndUnknown) {
  serve([&](Peer& peer, const std::string&) { peer.read_all(); });
  auto one = intent(url());
  one.attempt_timeout_ms = 200;
  const auto begin = clock.monotonic_ns();
  const EffectResult result = run(one);
  EXPECT_EQ(result.outcome, Outcome::unknown) << result.message;
  EXPECT_LT(clock.monotonic_ns() - begin, 5'000'000'000);
}

TEST_F(EffectsTest, AnExpiredPermitMeansNotDoneAndNoConnection) {
  auto one = intent(url());
  one.permit_ms = 0;
  const EffectResult result = run(one);
  EXPECT_EQ(result.outcome, Outcome::not_done);
  EXPECT_EQ(result.code, Code::permit_expired);
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(EffectsTest, IntentsOverATargetsCapWaitAndExpireThere) {
  limits = {.max_in_flight = 8, .max_per_target = 1};
  start();
  std::atomic<bool> release = false;
  serve([&](Peer& peer, const std::string& head) {
    (void)body_of(peer, head);
    while (!release) std::this_thread::yield();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  const auto first = intent(url());
  auto second = intent(url());
  second.permit_ms = 100;
  remote.submit(first);
  remote.submit(second);
  const EffectResult expired = wait_for(1).front();
  EXPECT_EQ(expired.id, second.id);
  EXPECT_EQ(expired.outcome, Outcome::not_done);
  EXPECT_EQ(expired.code, Code::permit_expired);
  release = true;
  const EffectResult done = wait_for(1).front();
  EXPECT_EQ(done.id, first.id);
  EXPECT_EQ(done.outcome, Outcome::done);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(EffectsTest, ManyAtOnceAreEachAnsweredOnceAndNeverMoreThanTheCapsAtATime) {
  limits = {.max_in_flight = 16, .max_per_target = 4};
  start();
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  serve([&](Peer& peer, const std::string& head) {
    const int now = ++at_once;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    const std::string body = body_of(peer, head);
    --at_once;
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  for (int i = 0; i < 100; ++i) remote.submit(intent(url(), std::to_string(last_id + 1)));
  std::set<std::uint64_t> ids;
  for (const EffectResult& result : wait_for(100)) {
    EXPECT_EQ(result.outcome, Outcome::done) << result.message;
    EXPECT_EQ(result.body, std::to_string(result.id));
    EXPECT_TRUE(ids.insert(result.id).second);
  }
  EXPECT_LE(most, 4);
  EXPECT_EQ(remote.in_flight(), 0u);
}

TEST_F(EffectsTest, LargeBodiesTravelByDescriptorAndAnswersAreBounded) {
  const std::string large(3 << 20, 'x');
  serve([&](Peer& peer, const std::string& head) {
    const std::string body = body_of(peer, head);
    EXPECT_EQ(body.size(), large.size());
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  auto one = intent(url(), large);
  one.max_response_bytes = 1000;
  const EffectResult result = run(one);
  EXPECT_EQ(result.outcome, Outcome::done) << result.message;
  EXPECT_EQ(result.body.size(), 1000u);
  EXPECT_TRUE(result.truncated);
}

TEST_F(EffectsTest, WhatTheKernelHasNotSentWhenAnAttemptEndsIsNeverSent) {  // J16
  std::atomic<bool> cut = false;
  std::atomic<int> end_of_reading = 0;
  serve([&](Peer& peer, const std::string&) {
    while (!cut) std::this_thread::yield();
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0) got = ::recv(peer.fd(), bytes, sizeof bytes, 0);
    end_of_reading = got < 0 ? errno : -1;
  });
  auto one = intent(url(), std::string(150 << 10, 'x'));
  one.attempt_timeout_ms = 300;
  EXPECT_EQ(run(one).outcome, Outcome::unknown);
  cut = true;
  while (end_of_reading == 0) std::this_thread::yield();
  EXPECT_EQ(end_of_reading, ECONNRESET);
}

TEST_F(EffectsTest, TheExecutorsEndMakesOpenIntentsUnknownAndTheWaitsStartAnew) {
  // J16
  std::atomic<bool> arrived = false;
  serve([&](Peer& peer, const std::string&) {
    arrived = true;
    peer.read_all();
  });
  const auto before = remote.alone_since_ms();
  auto one = intent(url());
  one.attempt_timeout_ms = 500;
  remote.submit(one);
  while (!arrived) std::this_thread::yield();
  ::shutdown(engine_end.get(), SHUT_RDWR);
  std::vector<EffectResult> results = wait_for(1);
  EXPECT_EQ(results[0].outcome, Outcome::unknown);
  EXPECT_EQ(results[0].code, Code::executor_lost);
  EXPECT_FALSE(remote.connected());
  // Without an executor nothing is sent, and "not done" of the former is not to be believed yet.
  remote.submit(intent(url()));
  results.clear();
  remote.poll(results);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome, Outcome::not_done);
  EXPECT_GE(remote.alone_since_ms(), clock.monotonic_ns() / 1'000'000 - 1);
  start();
  EXPECT_GT(remote.alone_since_ms(), before);
  serve([](Peer& peer, const std::string&) { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); });
  EXPECT_EQ(run(intent(url())).outcome, Outcome::done);
}

TEST_F(EffectsTest, TlsIsVerifiedAgainstTheNameBeforeAnythingIsSent) {
  const tests::support::TlsIdentity right(name);
  const tests::support::TlsIdentity wrong_name("other.example.com");
  raw = true;
  // What the server reads of the one connection that comes; it may end after the effect.
  const auto serve_one_as = [&](const tests::support::TlsIdentity& shown) {
    auto got = std::make_shared<std::promise<std::string>>();
    serve([got, &shown](Peer& peer, const std::string&) {
      got->set_value(tests::support::serve_one_over_tls(shown, peer.fd(),
                                                        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    });
    return got->get_future();
  };
  std::future<std::string> got = serve_one_as(right);
  auto get = intent(url("/x", "https"), "");
  get.method = "GET";
  const EffectResult unknown_authority = run(get);
  EXPECT_EQ(unknown_authority.outcome, Outcome::not_done) << unknown_authority.message;
  EXPECT_EQ(got.get(), "");

  ca_file = testing::TempDir() + "effects-ca-" + std::to_string(::getpid()) + ".pem";
  right.write_certificate(ca_file);
  start();
  get.id = ++last_id;
  got = serve_one_as(right);
  const EffectResult fine = run(get);
  EXPECT_EQ(fine.outcome, Outcome::done) << fine.message;
  EXPECT_EQ(fine.body, "ok");
  EXPECT_THAT(got.get(), testing::StartsWith("GET /x HTTP/1.1\r\n"));

  wrong_name.write_certificate(ca_file);
  start();
  get.id = ++last_id;
  got = serve_one_as(wrong_name);
  const EffectResult other_name = run(get);
  EXPECT_EQ(other_name.outcome, Outcome::not_done) << other_name.message;
  EXPECT_EQ(got.get(), "");
  ::unlink(ca_file.c_str());
}

TEST_F(EffectsTest, ProxyVariablesAreIgnored) {
  ::setenv("http_proxy", ("http://127.0.0.1:" + std::to_string(closed_port)).c_str(), 1);
  ::setenv("ALL_PROXY", ("http://127.0.0.1:" + std::to_string(closed_port)).c_str(), 1);
  serve([](Peer& peer, const std::string&) { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); });
  EXPECT_EQ(run(intent(url())).outcome, Outcome::done);
  ::unsetenv("http_proxy");
  ::unsetenv("ALL_PROXY");
}

TEST(EffectCodec, IntentsComeBackAsTheyWere) {
  const TimedIntent timed{{.id = 7,
                           .method = "PUT",
                           .url = "http://a.example/",
                           .headers = {{"A", "\xff"}},
                           .body = std::string(100'000, 'b'),
                           .permit_ms = 5,
                           .attempt_timeout_ms = 6,
                           .max_response_bytes = 8},
                          99};
  UniqueFd body;
  const auto frame = to_frame(timed, body);
  ASSERT_TRUE(frame && body.valid());
  const auto back = from_frame(frame->intent(), std::move(body));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->intent.body, timed.intent.body);
  EXPECT_EQ(back->intent.headers, timed.intent.headers);
  EXPECT_EQ(back->submitted_ns, 99);
  EXPECT_EQ(back->intent.permit_ms, 5);
  EXPECT_FALSE(from_frame(frame->intent(), UniqueFd()));
}

}  // namespace
}  // namespace sandglass::activities::effects
