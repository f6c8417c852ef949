// What callers were refused, as events and state (J20).
#include "engine/refusals/refusals.h"

#include <gtest/gtest.h>

#include "engine/refusals/codec/codec.h"
#include "tests/support/decider_stream.h"

namespace sandglass::engine::refusals {
namespace {

using Stream = tests::Stream<RefusalsDecider, codec::RefusalsCodec>;

NoteRefusal note(std::uint64_t dropped) {
  return {.refusal = {.token = "approver",
                      .tenant = "default",
                      .user = "bob",
                      .call = "decide an approval",
                      .code = base::Code::approval_decided,
                      .dropped = dropped},
          .details = core::DigestKey("k", "r").make(core::Encoding::json, R"({"message":"no"})")};
}

TEST(Refusals, EachIsOneEventAndTheStateCountsThemAndTheDroppedOnes) {
  Stream stream{.id = refusals_stream()};
  ASSERT_TRUE(stream.apply(note(0), 1000));
  ASSERT_TRUE(stream.apply(note(7), 2000));
  EXPECT_EQ(stream.events().size(), 1U);
  EXPECT_EQ(stream.state, (State{.noted = 2, .dropped = 7, .newest_ms = 2000}));
}

TEST(Refusals, WhatIsNewerThanThisProgramOrDamagedIsAnError) {
  auto encoded = codec::RefusalsCodec::encode(RefusalNoted{.token = "t"});
  EXPECT_TRUE(codec::RefusalsCodec::decode(encoded));
  encoded.body = "\xff";
  EXPECT_EQ(codec::RefusalsCodec::decode(encoded).error().code, base::Code::record_damaged);
  encoded.type = 2;
  EXPECT_EQ(codec::RefusalsCodec::decode(encoded).error().code, base::Code::event_unknown);
  EXPECT_EQ(codec::RefusalsCodec::decode_state("\xff").error().code, base::Code::record_damaged);
}

}  // namespace
}  // namespace sandglass::engine::refusals
