// One decision about one connection, for log, history and refusal pages (SPEC N6). The same for sandboxes and
// effects.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/codes.h"

namespace sandglass::engine::net {

struct Verdict {
  std::string sandbox;      // empty: an effect of the engine's own
  std::uint64_t token = 0;  // fencing token of the lease
  std::string run;
  std::string host;  // canonical; escaped text where it did not parse
  std::uint16_t port = 0;
  std::string method;  // CONNECT for a tunnel
  bool allowed = false;
  std::string rule;          // the allow rule, or what refused: "default-deny", "special-range:loopback", …
  bool internal = false;     // reached by network.internal
  std::string address;       // the one connected to, or the first one refused
  std::string reason;        // one sentence for a person
  std::int64_t time_ms = 0;  // wall time of the decision
  bool opaque = false;       // a tunnel that cannot be seen into
  base::Code code = base::Code::ok;
  std::uint64_t untold = 0;  // decisions of the same lease before this one that were counted only

  /// One line of JSON, ASCII only.
  std::string json() const;
};

}  // namespace sandglass::engine::net
