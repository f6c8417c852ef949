// A server behind the egress proxy: heads of its answers, and how their bodies end.
#include <string>

#include "engine/base/check.h"
#include "sandbox-runtime/egress/http_head.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(http_response) {
  using namespace sandglass::sandbox_runtime::egress;
  const auto end = find_head_end(input, {});
  if (!end || !*end) return;
  auto head = parse_response_head(input.substr(0, **end), {});
  if (!head) return;
  SG_CHECK(head->status >= 100 && head->status <= 599, "no status");
  for (const char* method : {"GET", "HEAD"}) {
    const auto framing = response_framing(*head, method);
    if (!framing || !remove_hop_headers(head->headers)) continue;
    const std::string text = head->text();
    const auto again = parse_response_head(text, {});
    SG_CHECK(again.has_value(), "what is passed on is malformed");
    const auto same = response_framing(*again, method);
    SG_CHECK(same && same->kind == framing->kind && same->length == framing->length,
             "what is passed on has another body");
  }
}
