// The Random port from a seed: the same bytes on every machine (SplitMix64).
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/ports.h"

namespace sandglass::tests::support {

class SeededRandom final : public engine::base::Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }
  void fill(std::span<std::uint8_t> out) override {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % 8 == 0) value = next();
      out[i] = static_cast<std::uint8_t>(value >> (8 * (i % 8)));
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace sandglass::tests::support
