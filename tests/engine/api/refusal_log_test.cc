// Which refused calls are recorded, which are only counted, and how many a minute (J20).
#include "engine/api/refusal_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/refusals/refusals.h"

namespace sandglass::engine::api {
namespace {

using base::Code;

class Submitted final : public EnginePort {
 public:
  void submit(shard::CommandEnvelope envelope) override {
    EXPECT_EQ(envelope.target, refusals::refusals_stream());
    using Command = core::CommandOf<refusals::RefusalsDecider::Command>;
    notes.push_back(std::get<refusals::NoteRefusal>(static_cast<const Command&>(*envelope.command).value));
  }
  void read(const core::StreamId&, shard::ReadFn) override {}
  void ask(const core::StreamId&, core::Question, shard::SaidFn) override {}
  std::uint64_t follow(const core::StreamId&, std::uint64_t, std::size_t, shard::RecordsFn) override {
    return 0;
  }
  void cancel_follow(std::uint64_t) override {}
  std::vector<refusals::NoteRefusal> notes;
};

class TestClock final : public base::Clock {
 public:
  base::WallMs wall_ms() const override { return wall; }
  base::MonotonicNs monotonic_ns() const override { return ns; }
  base::WallMs wall = 1'000'000;
  base::MonotonicNs ns = 0;
};

class Refusals : public testing::Test {
 protected:
  void refuse(Code code, const std::string& token = "ann") {
    log_.refused({.token_name = token, .tenant = "t", .user = token},
                 {.call = identity::Call::decide, .target = "approval-1", .request_id = "r1"},
                 {code, "because"});
  }

  Submitted engine_;
  TestClock clock_;
  RefusalLog log_{engine_, clock_, "tenant key"};
};

TEST_F(Refusals, ARefusalIsRecordedWithWhoWhatAndWhy) {
  refuse(Code::approval_decided);
  ASSERT_EQ(engine_.notes.size(), 1U);
  const auto& note = engine_.notes.front();
  EXPECT_EQ(note.refusal.token, "ann");
  EXPECT_EQ(note.refusal.call, "decide an approval");
  EXPECT_EQ(note.refusal.code, Code::approval_decided);
  EXPECT_EQ(note.details.slot->bytes, R"({"target":"approval-1","request_id":"r1","message":"because"})");
}

TEST_F(Refusals, MalformedCallsAreCountedAndTroublesOfOursAreNoRefusals) {
  for (const Code code : {Code::invalid_argument, Code::payload_invalid, Code::record_too_large})
    refuse(code);
  for (const Code code : {Code::unavailable, Code::outcome_unknown, Code::overloaded, Code::internal,
                          Code::disk_full, Code::unauthenticated}) {
    refuse(code);
  }
  EXPECT_TRUE(engine_.notes.empty());
  EXPECT_EQ(log_.counters().malformed, 3U);
  EXPECT_EQ(log_.counters().refused, 0U);
}

TEST_F(Refusals, OneNoisyTokenIsBoundedAndLeavesRoomForAnother) {
  for (int i = 0; i < 1000; ++i) refuse(Code::not_found);
  EXPECT_EQ(engine_.notes.size(), 20U);
  EXPECT_EQ(log_.counters().dropped, 980U);
  refuse(Code::not_found, "bob");
  ASSERT_EQ(engine_.notes.size(), 21U);
  EXPECT_EQ(engine_.notes.back().refusal.dropped, 980U) << "the next record tells how many there were";
  refuse(Code::not_found, "bob");
  EXPECT_EQ(engine_.notes.back().refusal.dropped, 0U);
}

TEST_F(Refusals, ManyTokensTogetherAreBoundedToo) {
  for (int i = 0; i < 5000; ++i) refuse(Code::not_found, "token-" + std::to_string(i));
  EXPECT_EQ(engine_.notes.size(), 60U);
  EXPECT_EQ(log_.counters().refused, 5000U);
  EXPECT_EQ(log_.counters().recorded + log_.counters().dropped, 5000U);
}

// ADV-G18: the rate is measured on the clock that cannot be set.
TEST_F(Refusals, TheRateComesBackWithTimeAndNotWithTheWallClock) {
  for (int i = 0; i < 100; ++i) refuse(Code::not_found);
  const auto recorded = engine_.notes.size();
  clock_.wall += 86'400'000;
  refuse(Code::not_found);
  clock_.wall -= 2 * 86'400'000;
  refuse(Code::not_found);
  EXPECT_EQ(engine_.notes.size(), recorded);
  clock_.ns += 60'000'000'000;
  for (int i = 0; i < 100; ++i) refuse(Code::not_found);
  EXPECT_EQ(engine_.notes.size(), recorded + 6);
}

TEST_F(Refusals, TextsOfCallersAreCutAndAlwaysValidJson) {
  log_.refused({.token_name = "ann"}, {.target = std::string(100'000, '\xff'), .request_id = "\"\n"},
               {Code::not_found, std::string(100'000, 'x')});
  ASSERT_EQ(engine_.notes.size(), 1U);
  EXPECT_LT(engine_.notes.front().details.slot->bytes.size(), 8192U);
}

}  // namespace
}  // namespace sandglass::engine::api
