// A client of the egress proxy: heads, their checks, chunked bodies (ADV-C23, FR-158, FR-168). Oracles: byte
// by byte gives the same as all at once, and what is passed on is read as the same message, with no header
// and no length that the first reading did not have.
#include <string>

#include "engine/base/check.h"
#include "engine/net/host.h"
#include "sandbox-runtime/egress/chunk_scanner.h"
#include "sandbox-runtime/egress/http_head.h"
#include "sandbox-runtime/egress/request_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::sandbox_runtime::egress;

const HeadLimits kLimits{.max_bytes = 4096, .max_count = 20};

void check_piecewise(std::string_view bytes, const std::optional<std::size_t>& whole) {
  for (std::size_t size = 1, from = 0; size <= std::min<std::size_t>(bytes.size(), 600); ++size) {
    const auto end = find_head_end(bytes.substr(0, size), kLimits, from);
    if (!end) return;
    if (*end) {
      SG_CHECK(whole && *whole == **end, "byte by byte the head ends elsewhere");
      return;
    }
    from = size;
  }
}

void check_body(std::string_view body) {
  ChunkScanner at_once;
  const auto taken = at_once.feed(body);
  ChunkScanner slow;
  std::size_t count = 0;
  bool failed = false;
  for (std::size_t i = 0; i < body.size() && !failed && !slow.finished(); ++i) {
    const auto one = slow.feed(body.substr(i, 1));
    failed = !one;
    if (one) count += *one;
  }
  SG_CHECK(failed == !taken, "byte by byte a chunked body is judged otherwise");
  if (!taken) return;
  SG_CHECK(*taken == count && at_once.finished() == slow.finished(), "byte by byte it ends elsewhere");
  SG_CHECK(*taken <= body.size() && at_once.data_bytes() <= body.size(), "more than there is");
}

void check_passed_on(RequestHead head) {
  const auto framing = request_framing(head);
  if (!framing || !remove_hop_headers(head.headers)) return;
  const std::string text = head.text();
  const auto end = find_head_end(text, {});
  SG_CHECK(end && *end && **end == text.size(), "what is passed on has another end");
  const auto again = parse_request_head(text, {});
  SG_CHECK(again.has_value(), "what is passed on is malformed");
  SG_CHECK(again->headers.lines.size() == head.headers.lines.size(), "a header has split");
  const auto same = request_framing(*again);
  SG_CHECK(same && same->kind == framing->kind && same->length == framing->length,
           "what is passed on has another body");
}

}  // namespace

FUZZ_TARGET(http_request) {
  const auto end = find_head_end(input, kLimits);
  if (!end) return;
  check_piecewise(input, *end);
  if (!*end) return check_body(input);
  SG_CHECK(**end <= input.size(), "the head ends behind its bytes");
  const auto head = parse_request_head(input.substr(0, **end), kLimits);
  if (head) {
    if (head->method == "CONNECT") {
      const auto target = sandglass::engine::net::parse_authority(head->target, 0);
      if (target) (void)tunnel_fault(*head, *target);
    } else if (const auto url = sandglass::engine::net::parse_http_url(head->target)) {
      (void)plain_fault(*head, *url, 1000);
    }
    (void)asks_for_upgrade(*head);
    check_passed_on(*head);
  }
  check_body(input.substr(**end));
}
