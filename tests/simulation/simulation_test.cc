#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/base/log.h"

namespace sandglass::tests::simulation {
namespace {

std::string text_of(const std::vector<std::string>& violations) {
  std::string text;
  for (const auto& one : violations) text += "\n  " + one;
  return text;
}

class Quiet : public testing::Environment {
  void SetUp() override { engine::base::set_log_level(engine::base::LogLevel::error); }
};
const auto* const kQuiet = testing::AddGlobalTestEnvironment(new Quiet);

TEST(Simulation, OneSeed) {
  SimOptions options;
  if (const char* seed = std::getenv("SANDGLASS_SIM_SEED")) options.seed = std::strtoull(seed, nullptr, 10);
  const SimResult result = simulate(options);
  EXPECT_TRUE(result.violations.empty()) << reproduce(options) << text_of(result.violations);
}

TEST(Simulation, AThousandSeedsWithCrashesKeepEveryRule) {
  SimResult sum;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const SimOptions options{.seed = seed};
    const SimResult result = simulate(options);
    ASSERT_TRUE(result.violations.empty()) << reproduce(options) << text_of(result.violations);
    sum.crashes += result.crashes;
    sum.records += result.records;
    sum.rebuilds += result.rebuilds;
    sum.late += result.late;
  }
  // A simulation that never gets into trouble proves nothing.
  EXPECT_GT(sum.crashes, 1000U);
  EXPECT_GT(sum.late, 1000U);
  EXPECT_GT(sum.rebuilds, 1000U);
  RecordProperty("records", static_cast<int>(sum.records));
}

// J32
TEST(Simulation, EvictingEveryCoroutineGivesIdenticalRecords) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimOptions options{.seed = seed, .crashes = false, .disorder = false};
    const SimResult cached = simulate(options);
    ASSERT_TRUE(cached.violations.empty()) << "seed " << seed << text_of(cached.violations);
    options.evict_always = true;
    const SimResult evicted = simulate(options);
    ASSERT_TRUE(evicted.violations.empty()) << "seed " << seed << text_of(evicted.violations);
    ASSERT_EQ(cached.histories, evicted.histories) << "seed " << seed;
    ASSERT_GT(evicted.rebuilds, cached.rebuilds) << "seed " << seed;
  }
}

/// The first seed up to `limit` that finds the bug; 0: none.
std::uint64_t found_by(Plant plant, std::uint64_t limit) {
  for (std::uint64_t seed = 1; seed <= limit; ++seed) {
    if (!simulate({.seed = seed, .plant = plant}).violations.empty()) return seed;
  }
  return 0;
}

TEST(Simulation, FindsAReplyBeforeTheSyncWithin50Seeds) {
  EXPECT_NE(found_by(Plant::reply_before_sync, 50), 0U);
}
TEST(Simulation, FindsAnEffectBeforeItsIntentWithin5Seeds) {
  EXPECT_NE(found_by(Plant::effect_before_intent, 5), 0U);
}
TEST(Simulation, FindsALostTimerWithin50Seeds) {
  EXPECT_NE(found_by(Plant::timer_lost, 50), 0U);
}

}  // namespace
}  // namespace sandglass::tests::simulation
