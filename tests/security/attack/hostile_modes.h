// The ways in which the hostile init is bad; shared with the test that chooses one.
#pragma once

#include <cstdint>

namespace sandglass::tests::attack {

inline constexpr std::uint64_t kModeBase = 700;

enum class Hostile : std::uint64_t {
  closes,
  exits,
  wrong_version,
  garbage,
  lengths,
  floods,
  lies,
  gives_descriptors,
  crowds_barrier,
  silent,
  idle,
  names_without_end,
  content_without_end,
  count,
};

}  // namespace sandglass::tests::attack
