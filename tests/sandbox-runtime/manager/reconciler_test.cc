#include "sandbox-runtime/manager/reconciler.h"

#include <gtest/gtest.h>

#include "tests/support/memory_provider.h"

namespace sandglass::sandbox_runtime::manager {
namespace {

using scheduler::SandboxStage;

struct Books : testing::Test {
  Books() { held("sb-1", SandboxStage::leased, 3); }

  void held(const std::string& id, SandboxStage stage, std::uint64_t token) {
    state.sandboxes[id] = {.stage = stage, .token = token};
    host.sandboxes[id].fence = token;
  }
  Reconciler reconciler() {
    return Reconciler(
        {.provider = host,
         .pools = {scheduler::pool_stream("default")},
         .read =
             [this](const core::StreamId&, auto answer) {
               ++reads;
               answer(readable ? std::make_shared<const scheduler::PoolState>(state) : nullptr);
             },
         .report = [this](const core::StreamId&, scheduler::ReportLoss loss) { reported.push_back(loss); },
         .wake = {}});
  }

  tests::MemoryProvider host;
  scheduler::PoolState state;
  std::vector<scheduler::ReportLoss> reported;
  int reads = 0;
  bool readable = true;
};

TEST_F(Books, ThatAgreeChangeNothing) {
  Reconciler reconciler = this->reconciler();
  for (std::int64_t now : {0, 1, 2}) reconciler.poll(now);
  EXPECT_TRUE(reported.empty());
  EXPECT_EQ(host.sandboxes.size(), 1U);
  EXPECT_EQ(reads, 2) << "one round, read before and after the inventory";
  reconciler.poll(4'000);
  EXPECT_EQ(reads, 3);
}

TEST_F(Books, ALeaseThatTheHostDoesNotHaveIsReportedLost) {  // FR-180
  held("sb-2", SandboxStage::creating, 4);
  host.sandboxes.clear();
  Reconciler reconciler = this->reconciler();
  reconciler.poll(0);
  reconciler.poll(1);
  ASSERT_EQ(reported.size(), 1U) << "what is being created is not lost";
  EXPECT_EQ(reported[0].sandbox, "sb-1");
  EXPECT_EQ(reported[0].token, 3U);
}

TEST_F(Books, ASandboxThatNobodyKnowsIsDestroyed) {  // Q3, FR-184
  host.sandboxes["sb-stray"].fence = 9;
  Reconciler reconciler = this->reconciler();
  reconciler.poll(0);
  reconciler.poll(1);
  EXPECT_FALSE(host.sandboxes.contains("sb-stray"));
  EXPECT_TRUE(host.sandboxes.contains("sb-1"));
}

TEST_F(Books, WithoutReadableBooksNothingIsDestroyed) {
  host.sandboxes["sb-stray"].fence = 9;
  readable = false;
  Reconciler reconciler = this->reconciler();
  reconciler.poll(0);
  reconciler.poll(1);
  EXPECT_TRUE(host.sandboxes.contains("sb-stray"));
  EXPECT_TRUE(reported.empty());
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::manager
