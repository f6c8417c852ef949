// The machine's resolvers are followed (V16).
#include "engine/net/resolver_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <future>

#include "engine/base/system_ports.h"
#include "engine/net/dialer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_dns.h"

namespace sandglass::engine::net {
namespace {

/// The next packet; "nothing" if none comes in ten seconds, "end" at the end.
std::string next(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  if (::poll(&waiting, 1, 10'000) != 1) return "nothing";
  char text[16384];
  const ssize_t got = ::recv(fd, text, sizeof text, 0);
  return got <= 0 ? "end" : std::string(text, static_cast<std::size_t>(got));
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(ResolverWatch, TellsTheBeginningAndEveryChangeAlsoByAnotherFileInItsPlace) {
  const tests::support::TempFolder folder;
  const std::string path = folder.file("resolv.conf");
  write(path, "nameserver 192.0.2.1\n");
  auto watching = watch_resolvers(path, 10);
  ASSERT_TRUE(watching);
  EXPECT_EQ(next(watching->get()), "nameserver 192.0.2.1\n");
  write(folder.file("new"), "nameserver 192.0.2.2\n");
  ASSERT_EQ(std::rename(folder.file("new").c_str(), path.c_str()), 0);
  EXPECT_EQ(next(watching->get()), "nameserver 192.0.2.2\n");
  ::unlink(path.c_str());
  EXPECT_EQ(next(watching->get()), "\n");
  write(path, std::string(100'000, '#'));
  const std::string large = next(watching->get());
  EXPECT_EQ(large, std::string(large.size(), '#'));
  EXPECT_LE(large.size(), 16384u);
}

TEST(ResolverWatch, ADiallerAsksTheNameServersOfTheLastChangeAndLooksUpAnewWhatWaits) {
  tests::support::TestDns dns;
  dns.on("a.example.com", [](std::uint16_t, int) {
    tests::support::TestDns::Answer answer;
    answer.silent = true;
    return answer;
  });
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const base::UniqueFd teller(ends[0]);
  NetworkSettings settings;
  settings.resolvers = {dns.endpoint()};
  settings.resolve_timeout_ms = 60'000;
  base::SystemClock clock;
  const Gate gate(std::move(settings), clock);
  Dialer dialer(gate, clock, base::UniqueFd(ends[1]));
  const RuleText rule{"", "a.example.com", {443}, {}};
  const RuleSet rules = *RuleSet::parse(std::span(&rule, 1));
  std::promise<DialResult> promise;
  auto answer = promise.get_future();
  dialer.dial(gate.decide(rules, *parse_authority("a.example.com:443", 0), "CONNECT"), 0,
              [&](DialResult result) { promise.set_value(std::move(result)); });
  while (dns.queries() == 0) ::poll(nullptr, 0, 5);
  // The new one is an address at which nobody answers, and says so at once; the old one would be waited for.
  const std::string text = "# new\nnameserver 127.0.0.77\n";
  ASSERT_EQ(::send(teller.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(answer.get().connection.error().code, base::Code::resolve_failed);
  const int queries = dns.queries();
  EXPECT_FALSE(
      dialer.dial_blocking(gate.decide(rules, *parse_authority("a.example.com:443", 0), "CONNECT"), 0)
          .connection);
  EXPECT_EQ(dns.queries(), queries);
}

}  // namespace
}  // namespace sandglass::engine::net
