// Payloads in the debugger: open, bounded, and never able to reach the terminal (FR-118, FR-119, ADV-B6).
#include "replay-tools/cli/slot_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sandglass::replay_tools::cli {
namespace {

using engine::core::Encoding;
using engine::core::Slot;

TEST(SlotText, JsonIsShownAsItIs) {
  const Slot slot{Encoding::json, R"({"b":1,"a":[true,null]})"};
  EXPECT_EQ(slot_text(slot), R"(json, 23 bytes: {"b":1,"a":[true,null]})");
  EXPECT_EQ(slot_json(slot).dump(), R"({"encoding":"json","bytes":23,"json":{"b":1,"a":[true,null]}})");
}

TEST(SlotText, ControlCharactersAreEscaped) {
  const Slot slot{Encoding::bytes, "red \x1b[31m\r\nline\u202e"};
  const std::string text = slot_text(slot);
  for (const char c : {'\x1b', '\r', '\n'}) EXPECT_EQ(text.find(c), std::string::npos);
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
  EXPECT_NE(text.find("line"), std::string::npos);
}

TEST(SlotText, WhatIsLongIsCutBetweenCharacters) {
  std::string text = "x";
  while (text.size() < 3 * kShownSlotBytes) text += "\u00e4";
  const auto shown = slot_json({Encoding::bytes, text});
  EXPECT_EQ(shown["cut"], true);
  EXPECT_LE(shown["text"].get<std::string>().size(), kShownSlotBytes);
  EXPECT_NO_THROW((void)shown.dump());
  const auto json = slot_json({Encoding::json, "\"" + text + "\""});
  EXPECT_FALSE(json.contains("json")) << "half of a value is no value";
  EXPECT_EQ(json["cut"], true);
  EXPECT_LT(slot_text({Encoding::json, "\"" + text + "\""}).size(), 4 * kShownSlotBytes);
}

TEST(SlotText, WhatIsNoTextIsShownByItsSize) {
  EXPECT_EQ(slot_text({Encoding::cereal, "abc"}), "cereal, 3 bytes");
  EXPECT_EQ(slot_text({Encoding::bytes, "\xff\xfe"}), "bytes, 2 bytes");
  EXPECT_FALSE(slot_json({Encoding::bytes, "\xff\xfe"}).contains("text"));
  EXPECT_EQ(slot_json({Encoding::json, "[1,"})["text"], "[1,") << "damaged JSON is shown as text";
}

}  // namespace
}  // namespace sandglass::replay_tools::cli
