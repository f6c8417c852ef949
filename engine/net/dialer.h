// Name → checked address → connected descriptor. One resolution, then a connection to exactly one of the
// addresses that it gave and that the gate allows (ADV-C13, FR-162). A thread of its own does the waiting.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/net/gate.h"

namespace sandglass::engine::net {

struct DialResult {
  /// Connected, non-blocking, close-on-exec, without Nagle's delay; or why there is no connection
  /// (address_refused, resolve_failed, connect_failed, timed_out, overloaded, cancelled).
  base::Result<base::UniqueFd> connection = base::fail(base::Code::cancelled, "");
  Verdict verdict;  // complete: with the address, and `internal`
};

/// Called once, on the dialler's thread (on the caller's when it is overloaded); must not block.
using DialDone = std::move_only_function<void(DialResult)>;

/// Thread rule: callable from any thread. The destructor answers what is open with `cancelled`.
class Dialer {
 public:
  /// `gate` outlives the dialler. `resolver_changes`: texts of a resolv.conf, a packet each
  /// (resolver_watch.h); from then on its name servers are asked instead of the settings' ones.
  Dialer(const Gate& gate, base::Clock& clock, base::UniqueFd resolver_changes = {});
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  /// The decision must be an allowed one: nothing is looked up before the verdict on the name (FR-163). The
  /// whole of it takes at most the settings' two timeouts, or `timeout_ms` if that is shorter (0: no limit of
  /// its own).
  void dial(NameDecision decision, std::int64_t timeout_ms, DialDone done);
  DialResult dial_blocking(NameDecision decision, std::int64_t timeout_ms);

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace sandglass::engine::net
