#include "engine/dispatch/task_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sandglass::engine::dispatch {
namespace {

TEST(TaskQueue, PriorityFirstThenOrderAndWhatComesBackKeepsItsPlace) {  // E13
  TaskQueue queue;
  queue.put({"t", 0, 1}, 1, 100);
  queue.put({"t", 5, 2}, 2, 90);
  queue.put({"t", 0, 3}, 3, 80);
  queue.put({"t", -1, 4}, 4, 70);
  EXPECT_EQ(queue.size(), 4U);
  EXPECT_EQ(queue.oldest_ms(), 70);
  EXPECT_EQ(queue.next("", 1), 2U);
  EXPECT_EQ(queue.next("", 1), 1U);
  queue.put({"t", 0, 1}, 1, 100);
  EXPECT_EQ(queue.next("t", 1), 1U);
  queue.take_out({"t", 0, 3});
  EXPECT_EQ(queue.next("", 1), 4U);
  EXPECT_EQ(queue.next("", 1), std::nullopt);
  EXPECT_EQ(queue.oldest_ms(), std::nullopt);
}

TEST(TaskQueue, TenantsTakeTurnsByWeightAndNobodySavesUp) {  // E13
  TaskQueue queue({.weights = {{"big", 3.0}}});
  std::uint64_t order = 0;
  for (int i = 0; i < 400; ++i) queue.put({"big", 0, ++order}, 1, 0);
  for (int i = 0; i < 400; ++i) queue.put({"small", 9, ++order}, 2, 0);
  int big = 0;
  for (int i = 0; i < 400; ++i) big += queue.next("", 1) == 1U;
  EXPECT_EQ(big, 300) << "a priority counts among the steps of one tenant only";
  queue.put({"late", 0, ++order}, 3, 0);
  int late = 0;
  for (int i = 0; i < 5; ++i) {
    late += queue.next("", 1) == 3U;
    queue.put({"late", 0, ++order}, 3, 0);
  }
  EXPECT_GE(late, 1) << "who comes late is served";
  EXPECT_LE(late, 2) << "and has not saved up what it did not need before";
  EXPECT_EQ(queue.next("nobody", 1), std::nullopt);
}

TEST(TaskQueue, ARateBoundsASecond) {  // E13
  TaskQueue queue({.per_second = 10, .weights = {}});
  for (std::uint64_t i = 1; i <= 100; ++i) queue.put({"t", 0, i}, i, 0);
  int out = 0;
  std::int64_t now_ms = 1000;
  const auto drain = [&] {
    while (queue.next("", now_ms)) ++out;
  };
  drain();
  EXPECT_EQ(out, 10) << "what a second allows may go at once";
  EXPECT_EQ(queue.held_until_ms(now_ms), now_ms + 100);
  now_ms += 99;
  drain();
  EXPECT_EQ(out, 10);
  now_ms += 1;
  drain();
  EXPECT_EQ(out, 11);
  for (int i = 0; i < 50; ++i) {
    now_ms += 100;
    drain();
  }
  EXPECT_EQ(out, 61);
}

}  // namespace
}  // namespace sandglass::engine::dispatch
