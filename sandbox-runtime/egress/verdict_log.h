// How many of a lease's decisions are told one by one: a sandbox can ask without end, and each telling is a
// line in the engine's log. What is not told is counted, and the next one told says how many there were; the
// lease's end tells the rest (SPEC N6). Thread rule: the event loop's.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/base/ports.h"
#include "engine/net/verdict.h"

namespace sandglass::sandbox_runtime::egress {

class VerdictLog {
 public:
  static constexpr double burst = 1000;
  static constexpr double per_second = 10;

  /// True: `verdict` is to be told, and says how many before it were not.
  bool admit(engine::net::Verdict& verdict, engine::base::MonotonicNs now);
  /// How many were not told since; from here on they are.
  std::uint64_t take_untold();

 private:
  double tokens_ = burst;
  engine::base::MonotonicNs at_ = 0;
  std::uint64_t untold_ = 0;
};

}  // namespace sandglass::sandbox_runtime::egress
