#include "replay-tools/debugger/debugger.h"

#include <gtest/gtest.h>

#include "tests/replay-tools/replay/history_fixture.h"

namespace sandglass::replay_tools::debugger {
namespace {

class DebuggerOverARun : public testing::Test {
 protected:
  Histories histories_;
  replay::Timeline timeline_ =
      *replay::Timeline::read(histories_.reader, histories_.kinds, histories_.sample("a"));
  Debugger debugger_{timeline_};
};

TEST_F(DebuggerOverARun, GoesForwardsAndBackwardsOverTheSameStates) {
  std::vector<replay::Facts> forwards;
  do forwards.push_back(debugger_.frame().state);
  while (debugger_.next());
  EXPECT_EQ(debugger_.at(), 9u);
  ASSERT_EQ(forwards.size(), 10u);
  for (std::size_t i = 10; i-- > 0;) {
    EXPECT_EQ(debugger_.frame().state, forwards[i]);
    EXPECT_EQ(debugger_.previous(), i > 0);
  }
}

TEST_F(DebuggerOverARun, StopsAtStepsOperationsAndErrors) {
  const auto stops = [&](Stop stop) {
    std::vector<std::uint64_t> found;
    debugger_.go_to(0);
    while (debugger_.next(stop)) found.push_back(debugger_.at());
    std::vector<std::uint64_t> back{debugger_.at()};
    while (debugger_.previous(stop)) back.insert(back.begin(), debugger_.at());
    EXPECT_EQ(found, back);
    return found;
  };
  EXPECT_EQ(stops(Stop::step), (std::vector<std::uint64_t>{2, 3, 4, 5}));
  EXPECT_EQ(stops(Stop::operation), (std::vector<std::uint64_t>{5, 6, 7, 8}));
  EXPECT_EQ(stops(Stop::error), (std::vector<std::uint64_t>{3, 7}));
}

TEST_F(DebuggerOverARun, AFrameSaysWhatHappenedWhatChangedAndWhatIsPending) {
  ASSERT_TRUE(debugger_.go_to(6));
  const Frame frame = debugger_.frame();
  EXPECT_EQ(frame.seq, 6u);
  EXPECT_EQ(frame.last, 9u);
  EXPECT_EQ(frame.time_ms, 6'000);
  ASSERT_EQ(frame.events.size(), 1u);
  EXPECT_EQ(frame.events[0].what.name, "OperationIntended");
  const replay::Change intended{replay::Change::Kind::changed, "operations/0/pay/status",
                                "waiting for a place", "intended"};
  EXPECT_NE(std::ranges::find(frame.changes, intended), frame.changes.end());
  ASSERT_EQ(frame.pending.size(), 1u);
  EXPECT_NE(frame.pending[0].find("0/pay"), std::string::npos);
  ASSERT_TRUE(debugger_.go_to(1));
  EXPECT_EQ(debugger_.frame().cause, "request start");
  ASSERT_TRUE(debugger_.go_to(9));
  EXPECT_TRUE(debugger_.frame().pending.empty());
}

TEST_F(DebuggerOverARun, DoesNotLeaveItsHistory) {
  EXPECT_FALSE(debugger_.go_to(10));
  EXPECT_FALSE(debugger_.previous());
  EXPECT_EQ(debugger_.at(), 0u);
  EXPECT_TRUE(debugger_.go_to(9));
  EXPECT_FALSE(debugger_.next());
  EXPECT_EQ(debugger_.difference(3, 3).size(), 0u);
  EXPECT_GT(debugger_.difference(9, 1).size(), 0u);
}

}  // namespace
}  // namespace sandglass::replay_tools::debugger
