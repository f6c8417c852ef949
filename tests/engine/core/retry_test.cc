#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "engine/core/token.h"

namespace sandglass::engine::core {
namespace {

// FR-56: no overflow, no zero delay from one, no negative delay, for any attempt.
TEST(Retry, DelayStaysWithinItsBoundsForEveryAttempt) {
  for (const double backoff : {1.0, 1.0001, 2.0, 1e9, std::numeric_limits<double>::infinity()}) {
    const RetryPolicy policy{
        .initial_interval_ms = 100, .max_interval_ms = 60'000, .backoff = backoff, .jitter = 0.5};
    for (std::uint64_t attempt = 0; attempt <= 10'000; ++attempt) {
      const auto delay = retry_delay_ms(policy, static_cast<std::uint32_t>(attempt), attempt * 7919);
      ASSERT_GE(delay, 50) << attempt << " " << backoff;
      ASSERT_LE(delay, 60'000) << attempt << " " << backoff;
    }
    const auto last = retry_delay_ms(policy, 2147483647U, 1);
    EXPECT_GE(last, 50);
    EXPECT_LE(last, 60'000);
  }
}

TEST(Retry, GrowsByTheFactorUntilTheCap) {
  const RetryPolicy policy{.initial_interval_ms = 100, .max_interval_ms = 1000, .backoff = 2, .jitter = 0};
  EXPECT_EQ(retry_delay_ms(policy, 1, 0), 100);
  EXPECT_EQ(retry_delay_ms(policy, 2, 0), 200);
  EXPECT_EQ(retry_delay_ms(policy, 4, 0), 800);
  EXPECT_EQ(retry_delay_ms(policy, 5, 0), 1000);
}

TEST(Retry, JitterIsAFunctionOfSeedAndAttempt) {
  const RetryPolicy policy{.jitter = 1};
  EXPECT_EQ(retry_delay_ms(policy, 3, 42), retry_delay_ms(policy, 3, 42));
  EXPECT_NE(retry_delay_ms(policy, 3, 42), retry_delay_ms(policy, 3, 43));
}

}  // namespace
}  // namespace sandglass::engine::core
