// Fencing tokens and retry policy of actions: what a completion must present to be believed (J8).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sandglass::engine::core {

/// Which attempt of which owner. A completion counts only if it carries the token of the attempt that is
/// current. Ordered: a later token is greater.
struct Token {
  std::uint64_t epoch = 0;    // owner epoch of the shard
  std::uint32_t attempt = 0;  // from 1
  std::uint64_t counter = 0;  // stream sequence of the record that scheduled the attempt

  friend auto operator<=>(const Token&, const Token&) = default;
};

/// How a failed attempt is repeated. Exponential backoff, capped; jitter is deterministic in (key, attempt).
struct RetryPolicy {
  std::uint32_t max_attempts = 1;  // 0: no limit
  std::int64_t initial_interval_ms = 1000;
  std::int64_t max_interval_ms = 60'000;
  double backoff = 2.0;  // ≥ 1
  double jitter = 0.1;   // 0..1: the delay is shortened by up to this share

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

/// The delay before attempt `attempt + 1`, within [0, max_interval_ms] for every attempt up to 2^31 (FR-56).
/// `seed` gives the jitter, so that replay computes the same.
std::int64_t retry_delay_ms(const RetryPolicy& policy, std::uint32_t attempt, std::uint64_t seed);

}  // namespace sandglass::engine::core
