#include "engine/base/short_slices.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace sandglass::engine::base {

namespace {

/// struct sched_attr of linux/sched/types.h, as long as its first version: the C library has neither it nor
/// the calls.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

constexpr std::uint64_t kShortestSliceNs = 100'000;

}  // namespace

void ask_for_short_slices() {
  SchedulingAttributes attributes;
  // What else is set, a policy or a niceness from outside, is kept.
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime_ns = kShortestSliceNs;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace sandglass::engine::base
