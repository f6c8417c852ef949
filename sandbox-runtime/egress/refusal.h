// What a client is told when the proxy does not do what it asked. A refusal by policy says so plainly, so
// that nobody takes it for a network fault and tries again or around it (FR-167). Pure.
#pragma once

#include <string>
#include <string_view>

#include "engine/net/verdict.h"

namespace sandglass::sandbox_runtime::egress {

/// A whole response with "Connection: close". `detail` is one or more lines of text.
std::string plain_response(int status, std::string_view detail);

/// 403, or 502/504 where the name was allowed and the connection failed. `policy` names the lease's policy.
std::string verdict_response(const engine::net::Verdict& verdict, std::string_view policy);

}  // namespace sandglass::sandbox_runtime::egress
