#include "engine/server/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace sandglass::engine::server {
namespace {

TEST(Control, MessagesKeepTheirBordersAndCarryADescriptor) {
  auto ends = ControlChannel::make_pair();
  ASSERT_TRUE(ends);
  ControlChannel one(std::move(ends->first));
  ControlChannel other(std::move(ends->second));
  EXPECT_FALSE(other.receive().value());
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const base::UniqueFd reading(pipe_ends[0]);
  base::UniqueFd writing(pipe_ends[1]);
  ASSERT_TRUE(one.send("ready"));
  ASSERT_TRUE(one.send("effect", writing.get()));
  writing.reset();
  EXPECT_EQ(other.receive().value()->text, "ready");
  auto second = other.receive().value();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->text, "effect");
  ASSERT_TRUE(second->fd);
  ASSERT_EQ(write(second->fd.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(Control, TheOthersEndIsNoticed) {
  auto ends = ControlChannel::make_pair();
  ASSERT_TRUE(ends);
  ControlChannel one(std::move(ends->first));
  ends->second.reset();
  EXPECT_FALSE(one.receive());
  EXPECT_FALSE(one.send("x"));
}

}  // namespace
}  // namespace sandglass::engine::server
