#include "activities/gateway/schema.h"

#include <gtest/gtest.h>

#include <chrono>

namespace sandglass::activities::gateway {
namespace {

base::Code compiled(std::string_view schema) {
  const auto made = Schema::compile(schema);
  return made ? base::Code::ok : made.error().code;
}

std::string checked(std::string_view schema, std::string_view value) {
  const auto made = Schema::compile(schema);
  if (!made) return "SCHEMA " + made.error().message;
  const auto ok = made->check(value);
  return ok ? "" : ok.error().message;
}

struct Case {
  const char* schema;
  const char* good;
  const char* bad;
};

TEST(Schema, EveryKeywordAcceptsAndRefuses) {
  const Case cases[] = {
      {R"({"type":"integer"})", "9007199254740993", R"("1")"},
      {R"({"type":"integer"})", "1.0", "1.5"},
      {R"({"type":["string","null"]})", "null", "true"},
      {R"({"enum":[1,"a"]})", R"("a")", R"("1")"},
      {R"({"const":{"a":[1]}})", R"({"a":[1]})", R"({"a":[2]})"},
      {R"({"minimum":0,"exclusiveMaximum":10})", "0", "10"},
      {R"({"exclusiveMinimum":0,"maximum":10})", "10", "0"},
      {R"({"multipleOf":0.1})", "0.3", "0.35"},
      {R"({"minLength":2,"maxLength":3})", R"("äöü")", R"("äöüx")"},
      {R"({"pattern":"^a+$"})", R"("aaa")", R"("aab")"},
      {R"({"items":{"type":"string"},"minItems":1,"maxItems":2})", R"(["a"])", "[1]"},
      {R"({"prefixItems":[{"type":"string"}],"items":false})", R"(["a"])", R"(["a",1])"},
      {R"({"items":[{"type":"string"}],"additionalItems":{"type":"null"}})", R"(["a",null])", R"(["a",1])"},
      {R"({"uniqueItems":true})", "[1,2]", "[1,1.0]"},
      {R"({"contains":{"const":3}})", "[1,3]", "[1]"},
      {R"({"properties":{"a":{"type":"string"}},"additionalProperties":false})", R"({"a":"x"})",
       R"({"a":"x","b":1})"},
      {R"({"additionalProperties":{"type":"string"}})", R"({"b":"x"})", R"({"b":1})"},
      {R"({"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false})", R"({"x-a":""})",
       R"({"a":""})"},
      {R"({"propertyNames":{"maxLength":2}})", R"({"ab":1})", R"({"abc":1})"},
      {R"({"required":["a"],"minProperties":1,"maxProperties":2})", R"({"a":1})", R"({"b":1})"},
      {R"({"dependentRequired":{"a":["b"]}})", R"({"a":1,"b":2})", R"({"a":1})"},
      {R"({"allOf":[{"type":"string"},{"minLength":1}]})", R"("a")", R"("")"},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "null", "1"},
      {R"({"oneOf":[{"minimum":5},{"maximum":7}]})", "8", "6"},
      {R"({"not":{"type":"string"}})", "1", R"("a")"},
      {R"({"if":{"type":"string"},"then":{"minLength":2},"else":{"minimum":2}})", "2", R"("a")"},
      {R"({"$defs":{"n":{"$anchor":"name","type":"string"}},"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#name"}}})",
       R"({"a":"x","b":"y"})", R"({"b":1})"},
      {R"({"properties":{"next":{"$ref":"#"}},"additionalProperties":false})", R"({"next":{"next":{}}})",
       R"({"next":{"x":{}}})"},
      {"false", "", "1"},
  };
  for (const Case& one : cases) {
    if (*one.good != '\0') EXPECT_EQ(checked(one.schema, one.good), "") << one.schema;
    EXPECT_NE(checked(one.schema, one.bad), "") << one.schema << " " << one.bad;
    EXPECT_FALSE(checked(one.schema, one.bad).starts_with("SCHEMA")) << checked(one.schema, one.bad);
  }
}

TEST(Schema, AFaultNamesItsPlace) {
  EXPECT_EQ(checked(R"({"properties":{"argv":{"items":{"type":"string"}}}})", R"({"argv":["a",1]})"),
            R"(/argv/1: must be of type "string", is number)");
}

TEST(Schema, ReferencesThatLeaveTheDocumentOrHangAreRefusedAtOnce) {  // FR-124, ADV-G17
  for (const char* schema : {R"({"$ref":"http://example.com/schema"})", R"({"$ref":"other.json#/a"})",
                             R"({"$ref":"file:///etc/passwd"})", R"({"$ref":"#/$defs/none"})",
                             R"({"$ref":"#none"})", R"({"$ref":"#/a~5"})", R"({"$ref":""})",
                             R"({"properties":{"a":{"$ref":"#/required"}},"required":["x"]})"}) {
    EXPECT_EQ(compiled(schema), base::Code::schema_invalid) << schema;
  }
}

TEST(Schema, ACycleThatChecksNothingIsRefused) {  // FR-125
  EXPECT_EQ(compiled(R"({"$ref":"#"})"), base::Code::schema_invalid);
  EXPECT_EQ(compiled(R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}})"),
            base::Code::schema_invalid);
  EXPECT_EQ(compiled(R"({"not":{"$ref":"#"}})"), base::Code::schema_invalid);
}

TEST(Schema, WhatIsNotImplementedIsAnErrorAndWhatIsUnknownAnAnnotation) {
  EXPECT_EQ(compiled(R"({"unevaluatedProperties":false})"), base::Code::schema_invalid);
  EXPECT_EQ(compiled(R"({"type":"text"})"), base::Code::schema_invalid);
  EXPECT_EQ(compiled(R"({"minLength":-1})"), base::Code::schema_invalid);
  EXPECT_EQ(compiled(R"({"pattern":"(a)\\1"})"), base::Code::schema_invalid) << "RE2 has no back references";
  const std::string text = R"({ "x-ours": [1],  "description":"kept byte for byte" })";
  EXPECT_EQ(Schema::compile(text)->text(), text);
}

TEST(Schema, HostileValuesAndSchemasAreAnsweredQuickly) {  // ADV-G17, FR-125
  const auto start = std::chrono::steady_clock::now();
  std::string doubling = R"({"$defs":{"d0":{"type":"object"})";
  for (int i = 1; i <= 20; ++i) {
    const std::string ref = R"({"$ref":"#/$defs/d)" + std::to_string(i - 1) + "\"}";
    doubling += ",\"d" + std::to_string(i) + "\":{\"allOf\":[" + ref + "," + ref + "]}";
  }
  doubling += R"(},"$ref":"#/$defs/d20"})";
  EXPECT_NE(checked(doubling, "{}").find("too complex"), std::string::npos);
  EXPECT_NE(checked("true", std::string(10'000, '[') + std::string(10'000, ']')), "");
  EXPECT_NE(checked(R"({"type":"number"})", "1e400"), "");
  EXPECT_NE(checked("true", R"({"a":1,"a":2})"), "");
  EXPECT_NE(checked(R"({"pattern":"^(a+)+$"})", "\"" + std::string(50'000, 'a') + "b\""), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << "generous: sanitizers and a busy machine";
}

}  // namespace
}  // namespace sandglass::activities::gateway
