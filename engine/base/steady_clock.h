// The engine's time: a wall clock that never steps (ADV-E9). It begins as the machine's, advances with the
// monotonic clock and approaches the machine's wall clock slowly, so that setting that clock by hours neither
// ends a lease early or late nor makes a "not done" believed too soon (J16): whatever was measured in it was
// measured to within an eighth.
//
//   machine set forward by 2 h:   engine's time runs 1/8 faster until it has caught up, after 16 h
//   machine set back by 2 h:      it runs 1/8 slower; it never goes back
//   set forward by over 2 days:   that clock was wrong before (a machine that began in 1970): taken at once
//
// Deadlines that people were told are measured in calendar_ms(), the machine's wall clock as it is.
// Thread rule: any thread. The machine's clock outlives it.
#pragma once

#include <mutex>

#include "engine/base/ports.h"

namespace sandglass::engine::base {

class SteadyClock final : public Clock {
 public:
  /// A machine's clock further off than this was plainly wrong before.
  static constexpr WallMs kMostHeldMs = 48 * 3'600'000LL;

  explicit SteadyClock(const Clock& machine);

  /// Time goes on from here where the machine's clock is behind: what was recorded before is not in the
  /// future. Ignored beyond kMostHeldMs.
  void not_before(WallMs earlier_ms);

  WallMs wall_ms() const override;
  MonotonicNs monotonic_ns() const override { return machine_.monotonic_ns(); }
  WallMs calendar_ms() const override { return machine_.wall_ms(); }

 private:
  const Clock& machine_;
  mutable std::mutex mutex_;
  mutable MonotonicNs at_;   // monotonic time of the last look
  mutable std::int64_t ns_;  // the engine's time then, in nanoseconds since 1970
};

}  // namespace sandglass::engine::base
