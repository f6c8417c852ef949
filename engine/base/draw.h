// Small numbers from the Random port, for adapters and tests that choose by chance.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/ports.h"

namespace sandglass::engine::base {

/// Uniform in [0, limit) but for a bias of limit / 2^64; 0 if limit is 0.
inline std::uint64_t draw_below(Random& random, std::uint64_t limit) {
  if (limit == 0) return 0;
  std::array<std::uint8_t, 8> raw{};
  random.fill(raw);
  std::uint64_t value = 0;
  for (const std::uint8_t byte : raw) value = value << 8 | byte;
  return value % limit;
}

/// True `per_mille` times out of a thousand.
inline bool draw_chance(Random& random, std::uint32_t per_mille) {
  return per_mille > 0 && draw_below(random, 1000) < per_mille;
}

}  // namespace sandglass::engine::base
