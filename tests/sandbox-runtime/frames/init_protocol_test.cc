// Short fuzzers of what init and host take from each other, and of the tree stream (ADV-B26, FR-150).
#include "sandbox-runtime/frames/init_protocol.h"

#include <gtest/gtest.h>

#include <random>

#include "sandbox-runtime/frames/tree_stream.h"

namespace sandglass::sandbox_runtime::frames {
namespace {

using engine::base::Code;
using engine::base::Status;

ExecStart full_start() {
  ExecStart start;
  start.number = 0x1122334455667788;
  start.key = "key";
  start.digest.fill(7);
  start.argv = {"sh", "-c", std::string("a\0b", 3)};
  start.env = {"A=1", ""};
  start.cwd = "folder";
  start.drain_ms = 5;
  start.leave = Leave::go;
  start.note = "note";
  return start;
}

TEST(InitProtocol, AMessageComesBackAsItWent) {
  const auto back = decode<ExecStart>(encode(full_start()));
  ASSERT_TRUE(back);
  EXPECT_EQ(encode(*back), encode(full_start()));
  EXPECT_EQ(back->argv, full_start().argv);
  EXPECT_FALSE(decode<Reset>(encode(full_start()))) << "another type is not taken";
  EXPECT_FALSE(decode<ExecStart>(encode(full_start()) + "x")) << "nothing may follow";
}

TEST(InitProtocol, EveryTruncationIsRefused) {
  const std::string whole = encode(full_start());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode<ExecStart>(std::string_view(whole).substr(0, size))) << size;
  }
}

TEST(InitProtocol, ACountThatCannotBeTrueAllocatesNothing) {
  std::string packet;
  Encoder encoder(packet);
  encoder(ExecStart::kType, std::uint64_t{1}, std::string_view("k"), Digest{});
  encoder(std::uint32_t{0xffffffff});
  EXPECT_FALSE(decode<ExecStart>(packet));
}

TEST(InitProtocol, ChangedBytesNeverCrash) {
  std::mt19937_64 random(1);
  const std::string whole = encode(full_start());
  for (int round = 0; round < 20'000; ++round) {
    std::string packet = whole;
    for (std::uint64_t changes = random() % 4 + 1; changes > 0; --changes) {
      packet[random() % packet.size()] = static_cast<char>(random());
    }
    if (const auto message = decode<ExecStart>(packet)) EXPECT_LE(message->argv.size(), packet.size());
  }
}

/// Holds what every visitor may rely on.
struct Judge final : TreeVisitor {
  Status entry(const TreeHeader& header) override {
    EXPECT_FALSE(in_file);
    EXPECT_TRUE(check_tree_path(header.path).has_value());
    in_file = header.type == TreeItem::file;
    left = header.size;
    return {};
  }
  Status data(std::string_view piece) override {
    EXPECT_TRUE(in_file);
    EXPECT_LE(piece.size(), left);
    left -= piece.size();
    return {};
  }
  Status file_end(FileState, const Digest&) override {
    EXPECT_TRUE(in_file);
    in_file = false;
    return {};
  }
  Status end(std::uint64_t, std::uint64_t) override { return {}; }
  bool in_file = false;
  std::uint64_t left = 0;
};

std::string small_tree() {
  std::string bytes;
  put_tree_header(bytes, {TreeItem::folder, "a", false, 0, {}});
  put_tree_header(bytes, {TreeItem::file, "a/f", true, 6, {}});
  put_tree_data(bytes, "abc");
  put_tree_data(bytes, "def");
  put_tree_file_end(bytes, FileState::whole, Digest{});
  put_tree_header(bytes, {TreeItem::symlink, "l", false, 0, "a/f"});
  put_tree_header(bytes, {TreeItem::refused, "p", false, 0, "a named pipe"});
  put_tree_end(bytes, 3, 6);
  return bytes;
}

TEST(TreeStream, ChangedAndCutStreamsNeverCrashOrBreakTheVisitorsRules) {
  std::mt19937_64 random(2);
  const std::string whole = small_tree();
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    Judge judge;
    TreeDecoder decoder(judge);
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = 1 + random() % 20;
      if (!decoder.feed(std::string_view(bytes).substr(at, size))) break;
      at += size;
    }
  }
}

TEST(TreeStream, ALengthOverTheLimitIsRefusedAtOnce) {
  std::string bytes;
  Encoder encoder(bytes);
  encoder(TreeItem::folder, std::uint32_t{0x7fffffff});
  Judge judge;
  TreeDecoder decoder(judge);
  EXPECT_EQ(decoder.feed(bytes).error().code, Code::path_refused);
}

TEST(TreeStream, NothingMayFollowTheEnd) {
  Judge judge;
  TreeDecoder decoder(judge);
  EXPECT_EQ(decoder.feed(small_tree() + "x").error().code, Code::frame_malformed);
}

TEST(TreeStream, PathsAreCheckedByRule) {
  for (std::string_view good : {"a", "a/b", "...", "a b", "\xff", "-", "a\\b", "new\nline"}) {
    EXPECT_TRUE(check_tree_path(good).has_value()) << good;
  }
  using namespace std::string_view_literals;
  for (std::string_view bad :
       {""sv, "/"sv, "/a"sv, "a/"sv, "a//b"sv, "."sv, ".."sv, "a/.."sv, "../a"sv, "./a"sv, "a\0b"sv}) {
    EXPECT_FALSE(check_tree_path(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::frames
