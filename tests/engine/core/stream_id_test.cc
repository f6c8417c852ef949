#include "engine/core/stream_id.h"

#include <gtest/gtest.h>

#include <string>

namespace sandglass::engine::core {
namespace {

TEST(StreamId, HasOneText) {
  const std::string text = "run-0123456789abcdef0123456789abcdef";
  const auto stream = StreamId::parse(text);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->text(), text);
  EXPECT_EQ(StreamId::from_bytes(stream->bytes()), stream);
  for (const char* other :
       {"run-0123456789ABCDEF0123456789abcdef", "RUN-0123456789abcdef0123456789abcdef",
        "run-0123456789abcdef0123456789abcde", "run-0123456789abcdef0123456789abcdefff",
        "run_0123456789abcdef0123456789abcdef", "run-0123456789abcdef0123456789abcdeg", "run-", ""}) {
    EXPECT_FALSE(StreamId::parse(other)) << other;
  }
}

}  // namespace
}  // namespace sandglass::engine::core
