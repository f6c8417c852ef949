#include "engine/base/steady_clock.h"

#include <algorithm>

namespace sandglass::engine::base {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kSlew = 8;                // at most one part in so many
constexpr std::int64_t kAgreeNs = 5 * kNsPerMs;  // two clocks this near agree

}  // namespace

SteadyClock::SteadyClock(const Clock& machine)
    : machine_(machine), at_(machine.monotonic_ns()), ns_(machine.wall_ms() * kNsPerMs) {}

void SteadyClock::not_before(WallMs earlier_ms) {
  const std::lock_guard lock(mutex_);
  const std::int64_t ahead_ms = earlier_ms - ns_ / kNsPerMs;
  if (ahead_ms > 0 && ahead_ms <= kMostHeldMs) ns_ = earlier_ms * kNsPerMs;
}

WallMs SteadyClock::wall_ms() const {
  const std::lock_guard lock(mutex_);
  const MonotonicNs now = machine_.monotonic_ns();
  const std::int64_t passed = std::max<std::int64_t>(now - at_, 0);
  at_ = now;
  ns_ += passed;
  const std::int64_t off = machine_.wall_ms() * kNsPerMs - ns_;
  if (off > kMostHeldMs * kNsPerMs) {
    ns_ += off;
  } else if (off < -kAgreeNs || off > kAgreeNs) {
    ns_ += std::clamp(off, -passed / kSlew, passed / kSlew);
  }
  return ns_ / kNsPerMs;
}

}  // namespace sandglass::engine::base
