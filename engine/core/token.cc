#include "engine/core/token.h"

#include <algorithm>
#include <cmath>

namespace sandglass::engine::core {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): spreads seed and attempt over 64 bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

}  // namespace

std::int64_t retry_delay_ms(const RetryPolicy& policy, std::uint32_t attempt, std::uint64_t seed) {
  const double longest = static_cast<double>(std::max<std::int64_t>(policy.max_interval_ms, 0));
  const double first = static_cast<double>(std::max<std::int64_t>(policy.initial_interval_ms, 0));
  const double factor = std::isfinite(policy.backoff) ? std::max(policy.backoff, 1.0) : 1.0;
  // The exponent is capped, not only the product: pow() may overflow to infinity, which min() still handles.
  const double exponent = std::min<double>(attempt > 0 ? attempt - 1 : 0, 1024);
  const double grown = first == 0 ? 0 : first * std::pow(factor, exponent);
  const double capped = std::min(std::isfinite(grown) ? grown : longest, longest);
  const double share = std::clamp(std::isfinite(policy.jitter) ? policy.jitter : 0.0, 0.0, 1.0);
  const double unit = static_cast<double>(mix(seed ^ attempt) >> 11) * 0x1.0p-53;
  return static_cast<std::int64_t>(capped * (1.0 - share * unit));
}

}  // namespace sandglass::engine::core
