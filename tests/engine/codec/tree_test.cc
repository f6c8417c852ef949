#include "engine/codec/tree.h"

#include <gtest/gtest.h>

namespace sandglass::engine::codec {
namespace {

TreeEntry file(std::string path) {
  return {.path = std::move(path), .size = 3, .digest = base::sha256("abc")};
}

TEST(Tree, EqualTreesGiveEqualBytesWhateverTheirOrder) {
  const Tree one{{file("a/b"), file("a.c"), {.type = TreeEntryType::folder, .path = "empty"}}};
  const Tree other{{one.entries[2], one.entries[1], one.entries[0]}};
  const auto bytes = encode_tree(one);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, encode_tree(other).value());
  const auto back = decode_tree(*bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->entries.size(), 3U);
  EXPECT_EQ(encode_tree(*back).value(), *bytes);
}

TEST(Tree, PathsThatLeaveTheRootAreRefused) {
  for (const std::string path : {"", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a"}) {
    EXPECT_EQ(encode_tree({{file(path)}}).error().code, base::Code::path_refused) << path;
  }
  EXPECT_FALSE(check_tree_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(check_tree_path(std::string(256, 'x')));
  EXPECT_TRUE(check_tree_path("a\nb/..c/...d"));
}

TEST(Tree, NothingLiesBelowAFileOrASymlinkAndNoPathIsThereTwice) {
  EXPECT_FALSE(encode_tree({{file("a"), file("a/b")}}));
  EXPECT_FALSE(
      encode_tree({{TreeEntry{.type = TreeEntryType::symlink, .path = "l", .target = "/"}, file("l/b")}}));
  EXPECT_FALSE(encode_tree({{file("a"), file("a")}}));
  EXPECT_TRUE(
      encode_tree({{TreeEntry{.type = TreeEntryType::folder, .path = "a"}, file("a/b"), file("a.b")}}));
}

TEST(Tree, DamagedBytesAreNamed) {
  EXPECT_EQ(decode_tree("\xff").error().code, base::Code::record_damaged);
  EXPECT_EQ(decode_tree("").error().code, base::Code::format_unknown);
}

}  // namespace
}  // namespace sandglass::engine::codec
