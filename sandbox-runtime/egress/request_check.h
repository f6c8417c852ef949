// What is wrong with a well-formed request before any policy is asked. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/net/host.h"
#include "sandbox-runtime/egress/http_head.h"
#include "sandbox-runtime/egress/tls_hello.h"

namespace sandglass::sandbox_runtime::egress {

struct RequestFault {
  int status = 400;
  std::string text;
};

/// Of a request in absolute form: framing, Host, expectations, the size of the body.
std::optional<RequestFault> plain_fault(const RequestHead& head, const engine::net::HttpUrl& url,
                                        std::uint64_t max_body_bytes);

/// Of CONNECT: no body, and no Host that differs from the target.
std::optional<RequestFault> tunnel_fault(const RequestHead& head, const engine::net::HostPort& target);

bool asks_for_upgrade(const RequestHead& head);

/// Empty if the hello is one for this host (SPEC N2, FR-165).
std::string hello_fault(const ClientHello& hello, const engine::net::Host& host);

}  // namespace sandglass::sandbox_runtime::egress
