#include "engine/base/text.h"

#include <gtest/gtest.h>

namespace sandglass::engine::base {
namespace {

// FR-118, FR-119: nothing that hides, reorders or moves the cursor reaches a terminal.
TEST(Text, HiddenAndControlCharactersBecomeVisibleEscapes) {
  EXPECT_EQ(escape_for_terminal("a\x1b[2Kb\r"), "a\\x1b[2Kb\\r");
  EXPECT_EQ(escape_for_terminal("x\u202Ey"), "x\\u{202e}y");
  EXPECT_EQ(escape_for_terminal("x\u200By\u00A0z\u00AD"), "x\\u{200b}y\\u{a0}z\\u{ad}");
  EXPECT_EQ(escape_for_terminal("\xC2\x9b"), "\\u{9b}");
  EXPECT_EQ(escape_for_terminal("\U000E0100"), "\\u{e0100}");
}

TEST(Text, PlainTextInAnyScriptIsLeftAlone) {
  EXPECT_EQ(escape_for_terminal("grün ≤ 漢字 🙂"), "grün ≤ 漢字 🙂");
  EXPECT_EQ(escape_for_terminal("a\nb", true), "a\nb");
  EXPECT_EQ(escape_for_terminal("a\nb"), "a\\nb");
}

TEST(Text, InvalidUtf8IsShownByteByByte) {
  EXPECT_EQ(escape_for_terminal("a\xFF\xC0\x80"), "a\\xff\\xc0\\x80");
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));
  EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF"));
}

TEST(Text, QuotingMarksWhereAValueBeginsAndEnds) {
  EXPECT_EQ(quote_for_terminal(""), "\"\"");
  EXPECT_EQ(quote_for_terminal("plain"), "plain");
  EXPECT_EQ(quote_for_terminal("two words"), "\"two words\"");
  EXPECT_EQ(quote_for_terminal("say \"x\""), "\"say \\\"x\\\"\"");
}

}  // namespace
}  // namespace sandglass::engine::base
