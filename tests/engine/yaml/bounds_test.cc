#include "engine/yaml/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sandglass::engine::yaml {
namespace {

using testing::HasSubstr;

std::string fault_of(std::string_view text, const Bounds& bounds = {}) {
  const auto fault = find_fault(text, bounds);
  if (!fault) return "none";
  return std::to_string(fault->line) + ":" + std::to_string(fault->column) + ": " + fault->what;
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(YamlBounds, ValuesAreCountedWithAliasesFilledInAndNamesAreNot) {
  const Bounds bounds{.values = 6};
  // The list, three values, and one of them as the value of a field of a mapping.
  EXPECT_EQ(fault_of("[1, {a: 2, b: 3}, 4]", bounds), "none");
  EXPECT_THAT(fault_of("[1, {a: 2, b: 3}, 4, 5]", bounds), HasSubstr("1:22: more than 6 values"));
  EXPECT_EQ(fault_of("[&a [1, 2], 3, 4]", bounds), "none");
  EXPECT_EQ(fault_of("[&a [1], *a]", bounds), "none");
  EXPECT_THAT(fault_of("[&a [1, 2], *a]", bounds), HasSubstr("1:13: more than 6 values"));
  EXPECT_THAT(fault_of("{a: &a [1, 2, 3], b: *a}", bounds), HasSubstr("1:22: more than 6 values"));
  EXPECT_THAT(fault_of("[,,,,,,,]", bounds), HasSubstr("1:7: more than 6 values"));
  EXPECT_THAT(fault_of("- \n- \n- \n- \n- \n- \n", bounds), HasSubstr("7:1: more than 6 values"));
}

TEST(YamlBounds, TextsAndNamesAreCountedAsOftenAsTheyAreNamed) {
  const Bounds bounds{.bytes = 12};
  EXPECT_EQ(fault_of("{abcd: efgh, i: jkl}", bounds), "none");
  EXPECT_THAT(fault_of("{abcd: efgh, i: jklm}", bounds), HasSubstr("1:17: more than 12 bytes"));
  EXPECT_EQ(fault_of("[&a abcd, *a, *a]", bounds), "none");
  EXPECT_THAT(fault_of("[&a abcd, *a, *a, *a]", bounds), HasSubstr("1:19: more than 12 bytes"));
  EXPECT_THAT(fault_of("[&a {abcd: ef}, &b [*a], *b]", bounds), HasSubstr("1:26: more than 12 bytes"));
  EXPECT_THAT(fault_of("%TAG !a! tag:example.org,2002:\n---\n[!a!b c]\n", bounds),
              HasSubstr("3:2: more than"));
}

TEST(YamlBounds, AnAnchorThatIsGivenAgainStandsForItsLastValue) {
  const Bounds bounds{.bytes = 8};
  EXPECT_EQ(fault_of("[&a abcd, &a ef, *a]", bounds), "none");
  EXPECT_THAT(fault_of("[&a abcd, &a ef, *a, *a]", bounds), HasSubstr("1:22: more than 8 bytes"));
}

TEST(YamlBounds, DepthIsThatOfTheFilledInDocument) {
  const Bounds bounds{.depth = 3};
  EXPECT_EQ(fault_of("[[[1]]]", bounds), "none");
  EXPECT_THAT(fault_of("[[[[]]]]", bounds), "none");
  EXPECT_THAT(fault_of("[[[[1]]]]", bounds), HasSubstr("1:5: nested more than 3 levels"));
  EXPECT_EQ(fault_of("[&a [[1]], *a]", bounds), "none");
  EXPECT_THAT(fault_of("[&a [[1]], [*a]]", bounds), HasSubstr("1:13: nested more than 3 levels"));
  EXPECT_THAT(fault_of(std::string(100'000, '[')), HasSubstr("nested more than 40 levels"));
  EXPECT_THAT(fault_of(repeated("- ", 50'000)), HasSubstr("nested more than 40 levels"));
  EXPECT_THAT(fault_of(repeated("? ", 50'000)), HasSubstr("nested more than 40 levels"));
}

TEST(YamlBounds, AnAliasOfWhatItStandsInIsRefused) {
  EXPECT_THAT(fault_of("&a [*a]"), HasSubstr("1:5: an alias that stands inside of what it names"));
  EXPECT_THAT(fault_of("a: &a\n  b: *a\n"), HasSubstr("2:6: an alias"));
}

TEST(YamlBounds, ThereIsOneDocument) {
  EXPECT_EQ(fault_of(""), "none");
  EXPECT_EQ(fault_of("---\na: 1\n...\n"), "none");
  EXPECT_THAT(fault_of("a: 1\n---\nb: 2\n"), HasSubstr("a second document begins here"));
  EXPECT_THAT(fault_of("a: 1\n---\n}\n"), HasSubstr("YAML"));
  EXPECT_THAT(fault_of("a: [b\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(fault_of("a: *b\n"), HasSubstr("not valid YAML"));
}

TEST(YamlBounds, AShortTextCannotStandForAHugeDocument) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  EXPECT_THAT(fault_of(text), HasSubstr("more than 20,000 values"));
  EXPECT_THAT(fault_of("a: &a " + std::string(30'000, 'x') + "\nb: [" + repeated("*a,", 9'000) + "]\n"),
              HasSubstr("2:104: more than 1,048,576 bytes of text"));
}

}  // namespace
}  // namespace sandglass::engine::yaml
