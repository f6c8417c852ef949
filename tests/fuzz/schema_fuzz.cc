// JSON Schema for tool arguments: schema, a NUL byte, value. Both may be hostile (ADV-G17).
#include <string>

#include "activities/gateway/schema.h"
#include "engine/base/check.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(schema) {
  using sandglass::activities::gateway::Schema;
  const auto cut = input.find('\0');
  const auto text = input.substr(0, cut);
  const auto schema = Schema::compile(text);
  if (!schema) return;
  SG_CHECK(schema->text() == text, "the schema's text has changed");
  const auto value = cut == input.npos ? std::string_view("{}") : input.substr(cut + 1);
  const bool first = schema->check(value).has_value();
  SG_CHECK(schema->check(value).has_value() == first, "the same value gets two answers");
  (void)schema->check("null");
  (void)schema->check(R"({"a":[1,2.5,"x",null,true,{"b":""}]})");
}
