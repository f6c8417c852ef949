#include "activities/agent/plan_values.h"

#include <gtest/gtest.h>

namespace sandglass::activities::agent {
namespace {

using taskfile::Condition;
using Op = Condition::Test;

PlanValues values() {
  PlanValues made({{"receiver", "http://r"}});
  made.set("test", Json::parse(R"({"exit_code":1,"out":"a: ok\nb: FAIL\nc: FAIL\n","failing":"b","none":null,
                                   "big":9007199254740993,"files":["x","y"],"json":{"id":[{"n":7}]}})"));
  return made;
}

bool holds(Condition condition) {
  const auto held = values().holds(condition);
  EXPECT_TRUE(held) << held.error().message;
  return held.value_or(false);
}

TEST(PlanValues, AWholeTextBecomesTheValueItselfAndAPartBecomesText) {
  EXPECT_EQ(
      values()
          .fill(
              R"({"a":"${test.exit_code}","b":["${test.files}"],"c":"n=${test.exit_code}, ${test.failing}"})")
          .value(),
      Json::parse(R"({"a":1,"b":[["x","y"]],"c":"n=1, b"})"));
  EXPECT_EQ(values().fill(R"("${param.receiver}/pulls")").value(), "http://r/pulls");
  EXPECT_EQ(values().fill(R"("${test.json.id.0.n}")").value(), 7);
  EXPECT_EQ(values().fill(R"("$${test.failing}")").value(), "${test.failing}");
  EXPECT_EQ(values().fill(R"("${test.big}")").value().dump(), "9007199254740993") << "FR-123";
}

TEST(PlanValues, AValueCannotChangeTheShapeOfItsArguments) {
  PlanValues hostile({});
  hostile.set("x", {{"out", R"(","argv":["rm"],"y":"${x.out})"}});
  EXPECT_EQ(hostile.fill(R"({"argv":["echo","<${x.out}>"]})").value(),
            (Json{{"argv", {"echo", R"(<","argv":["rm"],"y":"${x.out}>)"}}}));
}

TEST(PlanValues, AValueThatIsNamedVeryOftenIsNoWayToTheEnginesMemory) {  // ADV-A9
  PlanValues large({{"x", std::string(100'000, 'x')}});
  large.set("step", {{"out", std::string(60'000, 'o')}});
  std::string text;
  std::string list;
  for (int i = 0; i < 10'000; ++i) {
    text += "${param.x}";
    list += "\"${step}\",";
  }
  for (const std::string& hostile : {"{\"text\":\"" + text + "\"}", "[" + list + "1]"}) {
    const auto filled = large.fill(hostile);
    ASSERT_FALSE(filled.has_value());
    EXPECT_EQ(filled.error().code, base::Code::arguments_invalid);
    EXPECT_FALSE(large.holds({.test = Op::equals, .value = hostile, .operand = "1"}).has_value());
  }
  EXPECT_TRUE(large.fill("\"" + text.substr(0, 800) + "\"").has_value()) << "eighty times is no harm";
  std::vector<taskfile::Extract> extracts;
  for (int i = 0; i < 1'000; ++i) extracts.push_back({.name = "n" + std::to_string(i), .from = "out"});
  Json result = {{"out", std::string(60'000, 'o')}};
  EXPECT_FALSE(extract_into(result, extracts).has_value());
  extracts.assign(1'000, {.name = "n", .from = "out", .regex = "o+", .group = 0});
  EXPECT_FALSE(extract_into(result, extracts).has_value());
}

TEST(PlanValues, APartOfACharacterIsNoMatch) {
  Json result = {{"out", "\xC3\xA9"}};
  for (const bool all : {false, true}) {
    const auto extracted =
        extract_into(result, {{.name = "n", .from = "out", .regex = "\\C", .group = 0, .all = all}});
    ASSERT_FALSE(extracted.has_value());
    EXPECT_EQ(extracted.error().code, base::Code::arguments_invalid);
  }
  EXPECT_TRUE(extract_into(result, {{.name = "n", .from = "out", .regex = ".", .group = 0}}).has_value());
  EXPECT_EQ(result["n"], "\xC3\xA9");
}

TEST(PlanValues, TheResultsOfAPlanTogetherAreBounded) {
  PlanValues values({});
  int kept = 0;
  base::Status last;
  while (kept < 20 && (last = values.set("a" + std::to_string(kept), {{"out", std::string(8 << 20, 'o')}})))
    ++kept;
  EXPECT_EQ(kept, 7);  // the eighth is 64 MiB and its field's name
  ASSERT_FALSE(last.has_value());
  EXPECT_EQ(last.error().code, base::Code::arguments_invalid);
  EXPECT_NE(last.error().message.find("more than 64 MiB"), std::string::npos) << last.error().message;
}

TEST(PlanValues, AMissingValueIsAnErrorInArgumentsAndNullInConditions) {
  EXPECT_EQ(values().fill(R"("${other.out}")").error().code, base::Code::arguments_invalid);
  EXPECT_EQ(values().fill(R"("x${test.files}")").error().code, base::Code::arguments_invalid);
  EXPECT_TRUE(holds({.test = Op::defined, .value = R"("${other.out}")", .operand = "false"}));
  EXPECT_FALSE(holds({.test = Op::matches, .value = R"("${other.out}")", .operand = R"(".")"}));
}

TEST(PlanValues, ConditionsCompareParsedResults) {
  EXPECT_TRUE(holds({.test = Op::equals, .value = R"("${test.exit_code}")", .operand = "1"}));
  EXPECT_FALSE(holds({.test = Op::equals, .value = R"("${test.exit_code}")", .operand = R"("1")"}));
  EXPECT_TRUE(holds({.test = Op::matches, .value = R"("${test.out}")", .operand = R"("^b: FAIL$")"}));
  EXPECT_TRUE(holds({.test = Op::contains, .value = R"("${test.files}")", .operand = R"("y")"}));
  EXPECT_TRUE(holds({.test = Op::contains, .value = R"("${test.out}")", .operand = R"("ok")"}));
  EXPECT_TRUE(holds({.test = Op::greater, .value = R"("${test.exit_code}")", .operand = "0"}));
  EXPECT_FALSE(holds({.test = Op::less, .value = R"("${test.exit_code}")", .operand = "1"}));
  const Condition yes{.test = Op::defined, .value = R"("${test.out}")", .operand = "true"};
  const Condition no{.test = Op::defined, .value = R"("${test.out}")", .operand = "false"};
  EXPECT_TRUE(holds({.test = Op::all, .parts = {yes, yes}}));
  EXPECT_FALSE(holds({.test = Op::all, .parts = {yes, no}}));
  EXPECT_TRUE(holds({.test = Op::any, .parts = {no, yes}}));
  EXPECT_TRUE(holds({.test = Op::none, .parts = {no}}));
  EXPECT_FALSE(values().holds({.test = Op::less, .value = R"("${test.out}")", .operand = "1"}));
  EXPECT_FALSE(values().holds({.test = Op::matches, .value = R"("x")", .operand = R"("(")"}));
}

TEST(PlanValues, ExtractsReadTheFirstMatchOrAllOfThem) {
  Json result = Json::parse(R"({"out":"a: ok\nb: FAIL\nc: FAIL\n","json":{"id":4}})");
  ASSERT_TRUE(extract_into(result, {{.name = "first", .from = "out", .regex = "^(\\w+): FAIL$"},
                                    {.name = "all", .from = "out", .regex = "^(\\w+): FAIL$", .all = true},
                                    {.name = "lines", .from = "out", .regex = "^", .group = 0, .all = true},
                                    {.name = "none", .from = "out", .regex = "x(y)"},
                                    {.name = "id", .from = "json.id"}}));
  EXPECT_EQ(result["first"], "b");
  EXPECT_EQ(result["all"], Json({"b", "c"}));
  EXPECT_EQ(result["lines"].size(), 4U);
  EXPECT_TRUE(result["none"].is_null());
  EXPECT_EQ(result["id"], 4);
  EXPECT_FALSE(extract_into(result, {{.name = "x", .from = "err", .regex = "a"}}));
  EXPECT_FALSE(extract_into(result, {{.name = "x", .from = "out", .regex = "a", .group = 1}}));
}

}  // namespace
}  // namespace sandglass::activities::agent
