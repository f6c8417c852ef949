// By which clock a timer is due, and that setting one of them loses none (ADV-E9, FR-26, FR-47).
#include "engine/shard/due_timers.h"

#include <gtest/gtest.h>

#include "engine/view/keys.h"
#include "engine/view/memory/view.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::shard {
namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kStart = 100 * kHour;
const core::StreamId kStream = core::StreamId::named(core::StreamKind::test, "s");

class TimerClocks : public testing::Test {
 protected:
  TimerClocks() { timers_.open(0); }

  void start(const std::string& key, std::int64_t due_ms) {
    codec::TurnHeader header;
    header.timers_started = {{key, due_ms}};
    timers_.decided(kStream, header);
    disk_.tamper(view::due_key(0, due_ms, kStream, key), "");
    timers_.durable(kStream, header);
  }
  /// Keys of what is due now, each ended at once.
  std::vector<std::string> due(std::int64_t wall_ms, std::int64_t calendar_ms) {
    std::vector<std::string> keys;
    for (int polls = 0; polls < 20; ++polls) {
      std::vector<DueTimer> out;
      timers_.poll({.wall_ms = wall_ms, .calendar_ms = calendar_ms}, 100, out);
      for (const DueTimer& timer : out) {
        keys.push_back(timer.key);
        codec::TurnHeader header;
        header.timers_ended = {{timer.key, timer.due_ms}};
        timers_.decided(kStream, header);
        disk_.tamper(view::due_key(0, timer.due_ms, kStream, timer.key), std::nullopt);
        timers_.durable(kStream, header);
      }
      (void)reads_.poll();
    }
    return keys;
  }

  tests::support::SeededRandom random_{1};
  view::MemoryDisk disk_{random_};
  view::MemoryView view_{disk_, random_, 0};
  ViewReads reads_{view_};
  DueTimers timers_{reads_, {}};
};

using Keys = std::vector<std::string>;

TEST_F(TimerClocks, AnElapsedTimerDoesNotSeeTheCalendar) {
  start("l:lease", kStart + 60'000);
  EXPECT_EQ(due(kStart, kStart + 2 * kHour), Keys{});
  EXPECT_EQ(due(kStart + 59'999, kStart - 2 * kHour), Keys{});
  EXPECT_EQ(due(kStart + 60'000, kStart - 2 * kHour), Keys{"l:lease"});
  EXPECT_EQ(due(kStart + 3 * kHour, kStart), Keys{}) << "once";
}

TEST_F(TimerClocks, ACalendarTimerGoesByItAlone) {
  start("@deadline", kStart + kHour);
  EXPECT_EQ(due(kStart + 5 * kHour, kStart), Keys{}) << "the calendar was set back";
  EXPECT_EQ(timers_.next_due_ms({.wall_ms = kStart + 5 * kHour, .calendar_ms = kStart + kHour - 7}),
            kStart + 5 * kHour + 7);
  EXPECT_EQ(due(kStart + 5 * kHour, kStart + kHour), Keys{"@deadline"});
}

TEST_F(TimerClocks, NoneIsLostWhenTheClockIsSetFarForwardAndBackAgain) {
  for (int i = 0; i < 50; ++i) start("l:" + std::to_string(i), kStart + i * 600'000);
  for (int i = 0; i < 50; ++i) start("@" + std::to_string(i), kStart + i * 600'000 + 1);
  std::size_t fired = due(kStart - 1, kStart + 2 * kHour).size();
  EXPECT_EQ(fired, 12U) << "deadlines within 2 h";
  fired += due(kStart - 1, kStart - 2 * kHour).size();
  EXPECT_EQ(fired, 12U);
  for (std::int64_t now = kStart; now < kStart + 10 * kHour; now += 300'000) {
    fired += due(now, now - kHour).size();
  }
  EXPECT_EQ(fired, 100U);
  EXPECT_EQ(timers_.in_memory(), 0U);
}

}  // namespace
}  // namespace sandglass::engine::shard
