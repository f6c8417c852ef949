#include "engine/codec/json.h"

#include <gtest/gtest.h>

namespace sandglass::engine::codec {
namespace {

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Json, TakesWhatRfc8259Allows) {
  for (const std::string_view text :
       {"{}", "[]", "null", " true ", "\"\"", "0", "-0", "1.0", "1E21", "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}",
        "\"\\ud83d\\ude00 \xF0\x9F\x98\x80\"",
        // FR-123: any precision is kept as text, so none of these is a reason to refuse.
        "9007199254740993", "-9223372036854775808", "18446744073709551615", "123456789012345678901234567890",
        "0.1234567890123456789012345678901234567890"}) {
    EXPECT_TRUE(check_json(text)) << text;
  }
}

TEST(Json, RefusesWhatReadersWouldDisagreeAbout) {  // FR-134, ADV-G17
  for (const std::string_view text : {"",
                                      " ",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "NaN",
                                      "Infinity",
                                      "-Infinity",
                                      "1e400",
                                      "-1e400",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":1,\"\\u0061\":2}",
                                      "[{\"b\":{\"x\":1,\"x\":1}}]",
                                      "\"\\ud800\"",
                                      "\"\\udc00\\ud800\"",
                                      "\"\xFF\"",
                                      "\"\xC0\x80\"",
                                      "\"\xED\xA0\x80\"",
                                      "\"\x01\"",
                                      "\xEF\xBB\xBF{}",
                                      "{} {}",
                                      "{}x",
                                      "/* */ 1",
                                      "'a'"}) {
    const auto status = check_json(text);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, base::Code::payload_invalid);
  }
  EXPECT_FALSE(check_json(std::string_view("{}\0", 3)));
  EXPECT_FALSE(check_json(std::string_view("{}\0{\"a\":1,\"a\":1}", 16)));
}

TEST(Json, StopsAtItsLimitsWithoutDeepRecursion) {  // ADV-G17: depth 10^4
  EXPECT_TRUE(check_json(repeat("[", 64) + repeat("]", 64)));
  EXPECT_FALSE(check_json(repeat("[", 65) + repeat("]", 65)));
  EXPECT_FALSE(check_json(repeat("[", 200'000), {.max_bytes = 1 << 20}));
  EXPECT_FALSE(check_json("[" + repeat("1,", 20) + "1]", {.max_values = 20}));
  EXPECT_FALSE(check_json("\"" + std::string(100, 'x') + "\"", {.max_bytes = 101}));
}

TEST(Json, TheMessageNamesTheKeyAndCarriesNoControlCharacters) {
  const auto twice = check_json("{\"pay\":1,\"pay\":2}");
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("pay"), std::string::npos);
  const auto control = check_json("{\"\\u001b[2J\":1,\"\\u001b[2J\":2} \x1b[2J");
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().message.find('\x1b'), std::string::npos);
  const auto raw = check_json("[\x1b[2J");
  ASSERT_FALSE(raw);
  EXPECT_EQ(raw.error().message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace sandglass::engine::codec
