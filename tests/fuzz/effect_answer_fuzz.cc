// What a target answers to an effect: any bytes on the checked connection (J16, FR-3). Input: how the request
// is made, then the answer as it comes. Oracles: "done" only for a whole answer with a status; never more
// body than asked for; nothing kept of an answer that counts as unknown.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "activities/effects/http_effect.h"
#include "engine/base/check.h"
#include "engine/base/system_ports.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass;
namespace effects = activities::effects;
using engine::base::UniqueFd;

struct World {
  World() { effects::start_http(); }
  engine::base::SystemClock clock;
  engine::net::Gate gate{{.resolvers = {{*engine::net::parse_ipv4("127.0.0.1"), 53}}}, clock};
  engine::net::Dialer dialer{gate, clock};
  effects::EffectWorld world{gate, dialer, clock, {}};
};

}  // namespace

FUZZ_TARGET(effect_answer) {
  static World outside;
  tests::fuzz::Input in(input.substr(0, 60'000));
  constexpr std::array methods{"GET", "POST", "HEAD", "PUT", "DELETE"};
  effects::TimedIntent timed;
  timed.submitted_ns = outside.clock.monotonic_ns();
  timed.intent = {.id = 7,
                  .method = methods[in.byte() % methods.size()],
                  .url = "http://target.example/path?q=secret",
                  .permit_ms = 60'000,
                  .attempt_timeout_ms = 60'000,
                  .max_response_bytes = in.u16()};
  if (timed.intent.method == "POST") timed.intent.body = "{}";
  int ends[2];
  SG_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
  const UniqueFd target(ends[0]);
  const auto answer = in.rest();
  SG_CHECK(write(target.get(), answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()), "write");
  shutdown(target.get(), SHUT_WR);
  const auto url = engine::net::parse_http_url(timed.intent.url);
  const auto result = effects::converse(outside.world, timed, *url, "192.0.2.1", UniqueFd(ends[1]),
                                        timed.submitted_ns + timed.intent.attempt_timeout_ms * 1'000'000);
  SG_CHECK(result.id == 7, "another effect's number");
  SG_CHECK(result.body.size() <= timed.intent.max_response_bytes, "more body than asked for");
  SG_CHECK(result.headers.size() <= 200, "more headers than kept");
  SG_CHECK(result.message.find("secret") == std::string::npos, "a query in a message");  // FR-173
  if (result.outcome == engine::core::Outcome::done) {
    SG_CHECK(result.http_status >= 200 && answer.size() >= 12, "done without an answer");
  } else {
    SG_CHECK(result.body.empty() && result.headers.empty(), "something is kept of a broken answer");
    SG_CHECK(!result.message.empty(), "no word about why");
  }
}
