// ADV-B22, ADV-B26: what a hostile or slow peer can do with a frame socket.
#include "sandbox-runtime/frames/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <random>

namespace sandglass::sandbox_runtime::frames {
namespace {

using engine::base::Code;
using engine::base::UniqueFd;

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  void send_raw(std::string_view bytes) {
    EXPECT_EQ(write(far.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
  }
  UniqueFd near;
  UniqueFd far;
};

std::string header(std::uint32_t length) {
  return {char(length >> 24), char(length >> 16), char(length >> 8), char(length)};
}

std::vector<std::string> drain(FrameReader& reader, int fd) {
  std::vector<std::string> frames;
  auto io = reader.fill(fd);
  EXPECT_TRUE(io.has_value()) << io.error().message;
  while (true) {
    auto frame = reader.next();
    EXPECT_TRUE(frame.has_value());
    if (!frame || !*frame) return frames;
    frames.emplace_back(**frame);
  }
}

TEST(Frame, FramesOfAllSizesArriveWholeAndInOrderThroughASmallSocket) {
  Pair pair;
  FrameWriter writer;
  FrameReader reader;
  std::vector<std::string> sent;
  for (std::size_t size : {0ul, 1ul, 3ul, 4096ul, 65535ul, 70000ul, 1ul << 20, 2ul}) {
    sent.push_back(std::string(size, char('a' + sent.size())));
    ASSERT_TRUE(writer.push(sent.back()).has_value());
  }
  std::vector<std::string> got;
  bool out = false;
  while (got.size() < sent.size()) {
    if (!out) out = writer.flush(pair.far.get()).value();
    for (auto& frame : drain(reader, pair.near.get())) got.push_back(std::move(frame));
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(writer.queued(), 0u);
  pair.far.reset();
  EXPECT_EQ(reader.fill(pair.near.get()).value(), Io::closed);
}

// The kernel tells it as a reset; it is how every killed process ends.
TEST(Frame, APeerThatEndsWithUnreadBytesHasClosed) {
  Pair pair;
  FrameReader reader;
  ASSERT_EQ(write(pair.near.get(), "unread", 6), 6);
  pair.far.reset();
  EXPECT_EQ(reader.fill(pair.near.get()).value(), Io::closed);
}

TEST(Frame, AFrameSentByteByByteIsWholeOnlyAtItsLastByte) {
  Pair pair;
  FrameReader reader;
  const std::string bytes = header(5) + "hello";
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    pair.send_raw(bytes.substr(i, 1));
    EXPECT_TRUE(drain(reader, pair.near.get()).empty());
    EXPECT_TRUE(reader.partial());
  }
  pair.send_raw("o");
  EXPECT_EQ(drain(reader, pair.near.get()), std::vector<std::string>{"hello"});
  EXPECT_FALSE(reader.partial());
}

TEST(Frame, ALengthOverTheLimitIsRefusedBeforeItsBodyIsAwaited) {
  for (std::uint32_t length : {1025u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    Pair pair;
    FrameReader reader(1024);
    pair.send_raw(header(length));
    auto io = reader.fill(pair.near.get());
    ASSERT_FALSE(io.has_value());
    EXPECT_EQ(io.error().code, Code::frame_malformed);
    EXPECT_LE(reader.buffered(), kFrameHeader);
  }
}

TEST(Frame, ABadLengthBehindAGoodFrameIsFoundWhenItsTurnComes) {
  Pair pair;
  FrameReader reader(1024);
  pair.send_raw(header(2) + "ok" + header(1u << 30));
  ASSERT_TRUE(reader.fill(pair.near.get()).has_value());
  EXPECT_EQ(reader.next().value().value(), "ok");
  EXPECT_EQ(reader.next().error().code, Code::frame_malformed);
}

TEST(Frame, AnEndInsideAFrameIsMalformed) {
  Pair pair;
  FrameReader reader;
  pair.send_raw(header(10) + "abc");
  pair.far.reset();
  EXPECT_EQ(reader.fill(pair.near.get()).value(), Io::again);
  EXPECT_EQ(reader.fill(pair.near.get()).error().code, Code::frame_malformed);
}

TEST(Frame, WholeFramesBeforeTheEndAreStillRead) {
  Pair pair;
  FrameReader reader;
  pair.send_raw(header(1) + "a" + header(1) + "b");
  pair.far.reset();
  EXPECT_EQ(drain(reader, pair.near.get()), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reader.fill(pair.near.get()).value(), Io::closed);
}

TEST(Frame, AFloodIsHeldToTheLimitOfOneFrame) {
  Pair pair;
  FrameReader reader(4096);
  std::string flood;
  for (int i = 0; i < 40; ++i) flood += header(4096) + std::string(4096, 'x');
  ASSERT_EQ(write(pair.far.get(), flood.data(), flood.size()), ssize_t(flood.size()));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(reader.fill(pair.near.get(), 16384).has_value());
  EXPECT_LE(reader.buffered(), 4096u + kFrameHeader + (64u << 10));
}

TEST(Frame, AWriterWhosePeerDoesNotReadRefusesToQueueMore) {
  Pair pair;
  FrameWriter writer(1 << 20, 2 << 20);
  engine::base::Status status;
  int pushed = 0;
  for (; status && pushed < 100; ++pushed) {
    status = writer.push(std::string(256 << 10, 'x'));
    ASSERT_TRUE(writer.flush(pair.far.get()).has_value());
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::overloaded);
  EXPECT_LE(writer.queued(), (2u << 20) + (256u << 10));
}

TEST(Frame, DescriptorsTravelWithTheirFramesInOrder) {
  Pair pair;
  FrameWriter writer;
  FrameReader reader(kDefaultMaxFrame, Descriptors::accept);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd first(ends[0]), second(ends[1]);
  ASSERT_TRUE(writer.push("plain").has_value());
  ASSERT_TRUE(writer.push("one", {first.get()}).has_value());
  ASSERT_TRUE(writer.push("two", {second.get()}).has_value());
  ASSERT_TRUE(writer.flush(pair.far.get()).value());
  EXPECT_EQ(drain(reader, pair.near.get()), (std::vector<std::string>{"plain", "one", "two"}));
  UniqueFd one = reader.take_descriptor(), two = reader.take_descriptor();
  ASSERT_TRUE(one && two);
  ASSERT_EQ(write(two.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(one.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_FALSE(reader.take_descriptor());
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

TEST(Frame, AReaderThatDropsDescriptorsNeverHasThemInstalled) {
  Pair pair;
  FrameWriter writer;
  FrameReader reader;
  const int before = open_descriptors();
  ASSERT_TRUE(writer.push("with", {pair.far.get()}).has_value());
  ASSERT_TRUE(writer.flush(pair.far.get()).value());
  EXPECT_EQ(drain(reader, pair.near.get()), std::vector<std::string>{"with"});
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(reader.take_descriptor());
}

TEST(Frame, UnclaimedDescriptorsCannotPileUp) {
  Pair pair;
  FrameReader reader(kDefaultMaxFrame, Descriptors::accept);
  FrameWriter writer;
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    ASSERT_TRUE(writer.push("x", {pair.far.get()}).has_value());
    ASSERT_TRUE(writer.flush(pair.far.get()).value());
    refused = !reader.fill(pair.near.get()).has_value();
    while (!refused && reader.next().value()) {
    }
  }
  EXPECT_TRUE(refused);
}

TEST(Frame, RandomBytesNeverCrashOrGrowTheReader) {
  std::mt19937_64 random(20261129);
  for (int round = 0; round < 2000; ++round) {
    Pair pair;
    FrameReader reader(1 << 12, Descriptors::accept);
    std::string bytes(random() % 512, '\0');
    for (auto& byte : bytes) byte = random() % 4 == 0 ? char(random()) : '\0';
    pair.send_raw(bytes);
    if (random() % 2) pair.far.reset();
    for (int pass = 0; pass < 3; ++pass) {
      auto io = reader.fill(pair.near.get(), 1 + random() % 200);
      if (!io) break;
      while (true) {
        auto frame = reader.next();
        if (!frame || !*frame) break;
        EXPECT_LE((*frame)->size(), 1u << 12);
      }
    }
    EXPECT_LE(reader.buffered(), (1u << 12) + kFrameHeader + (64u << 10));
  }
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::frames
