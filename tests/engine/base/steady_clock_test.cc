// The engine's time when somebody sets the machine's clock (ADV-E9, FR-18, FR-24).
#include "engine/base/steady_clock.h"

#include <gtest/gtest.h>

namespace sandglass::engine::base {
namespace {

constexpr WallMs kHour = 3'600'000;

class Machine final : public Clock {
 public:
  WallMs wall_ms() const override { return wall; }
  MonotonicNs monotonic_ns() const override { return mono_ms * 1'000'000; }
  void pass(WallMs ms) {
    wall += ms;
    mono_ms += ms;
  }
  WallMs wall = 1'700'000'000'000;
  WallMs mono_ms = 5'000;
};

class SteadyTime : public testing::Test {
 protected:
  /// How much of the engine's time goes by while so much really does.
  WallMs passes(WallMs ms) {
    const WallMs before = clock_.wall_ms();
    machine_.pass(ms);
    return clock_.wall_ms() - before;
  }
  Machine machine_;
  SteadyClock clock_{machine_};
};

TEST_F(SteadyTime, IsTheMachinesAsLongAsNobodySetsIt) {
  for (int i = 0; i < 1000; ++i) {
    machine_.pass(37);
    ASSERT_EQ(clock_.wall_ms(), machine_.wall);
  }
}

TEST_F(SteadyTime, AStepIsNeverJumpedAndWhatIsMeasuredIsOffByAnEighthAtMost) {
  for (const WallMs step : {2 * kHour, -2 * kHour, kHour, -24 * kHour, 24 * kHour}) {
    const WallMs before = clock_.wall_ms();
    machine_.wall += step;
    EXPECT_EQ(clock_.wall_ms(), before) << "nothing has passed";
    const WallMs lease = passes(120'000);
    EXPECT_GE(lease, 120'000 * 7 / 8);
    EXPECT_LE(lease, 120'000 * 9 / 8);
    EXPECT_EQ(clock_.calendar_ms(), machine_.wall);
  }
}

TEST_F(SteadyTime, CatchesUpInTheEndAndThenStays) {
  machine_.wall += 2 * kHour;
  for (int hour = 0; hour < 17; ++hour) machine_.pass(kHour), (void)clock_.wall_ms();
  EXPECT_NEAR(static_cast<double>(clock_.wall_ms()), static_cast<double>(machine_.wall), 5);
  machine_.wall -= 2 * kHour;
  WallMs last = clock_.wall_ms();
  for (int hour = 0; hour < 17; ++hour) {
    machine_.pass(kHour);
    EXPECT_GT(clock_.wall_ms(), last) << "it never goes back";
    last = clock_.wall_ms();
  }
  EXPECT_NEAR(static_cast<double>(last), static_cast<double>(machine_.wall), 5);
}

TEST_F(SteadyTime, DoesNotDependOnHowOftenItIsLookedAt) {
  Machine other = machine_;
  const SteadyClock seldom(other);
  machine_.wall += kHour;
  other.wall += kHour;
  for (int i = 0; i < 60'000; ++i) machine_.pass(1), (void)clock_.wall_ms();
  other.pass(60'000);
  EXPECT_NEAR(static_cast<double>(seldom.wall_ms()), static_cast<double>(clock_.wall_ms()), 1);
}

TEST_F(SteadyTime, GoesOnWhereTheRecordsEndUnlessThatIsPlainlyWrong) {
  const WallMs now = clock_.wall_ms();
  clock_.not_before(now - kHour);
  EXPECT_EQ(clock_.wall_ms(), now);
  clock_.not_before(now + 2 * kHour);
  EXPECT_EQ(clock_.wall_ms(), now + 2 * kHour);
  clock_.not_before(now + 365 * 24 * kHour);
  EXPECT_EQ(clock_.wall_ms(), now + 2 * kHour);
}

TEST(SteadyTimeAtBoot, AMachineThatBeganIn1970IsBelievedOnceItKnowsTheDate) {
  Machine machine;
  machine.wall = 10'000;
  const SteadyClock clock(machine);
  machine.wall = 1'700'000'000'000;
  machine.pass(1);
  EXPECT_EQ(clock.wall_ms(), machine.wall);
}

}  // namespace
}  // namespace sandglass::engine::base
