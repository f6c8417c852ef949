// The first bytes of a tunnel (FR-165, ADV-C21). Oracle: more bytes never change a judgement that is made.
#include "engine/base/check.h"
#include "engine/net/host.h"
#include "sandbox-runtime/egress/request_check.h"
#include "sandbox-runtime/egress/tls_hello.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(tls_hello) {
  using namespace sandglass::sandbox_runtime::egress;
  const ClientHello whole = read_client_hello(input);
  for (std::size_t size = 0; size < input.size(); size = size * 5 / 4 + 1) {
    const ClientHello part = read_client_hello(input.substr(0, size));
    if (part.state == ClientHello::State::incomplete) continue;
    SG_CHECK(part.state == whole.state && part.server_name == whole.server_name &&
                 part.encrypted == whole.encrypted,
             "more bytes change what a hello says");
    break;
  }
  if (const auto host = sandglass::engine::net::parse_host(whole.server_name))
    (void)hello_fault(whole, *host);
}
