// A compiled schema's inside. Not for others.
#pragma once

#include <re2/re2.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "activities/gateway/schema.h"

namespace sandglass::activities::gateway {

using Json = nlohmann::json;

struct Schema::Impl {
  std::string text;
  Json root;
  std::map<std::string, std::unique_ptr<RE2>, std::less<>> patterns;
  std::map<const Json*, const Json*> refs;  // schema with "$ref" → what it names
};

/// Checks one value against a compiled schema within a budget.
class SchemaChecker {
 public:
  explicit SchemaChecker(const std::map<std::string, std::unique_ptr<RE2>, std::less<>>& patterns,
                         const std::map<const Json*, const Json*>& refs)
      : patterns_(patterns), refs_(refs) {}

  /// Empty: valid. Else "place: what is wrong".
  std::string check(const Json& schema, const Json& value);

 private:
  bool valid(const Json& schema, const Json& value, const std::string& place);
  bool type_and_value(const Json& schema, const Json& value, const std::string& place);
  bool numbers(const Json& schema, const Json& value, const std::string& place);
  bool strings(const Json& schema, const Json& value, const std::string& place);
  bool arrays(const Json& schema, const Json& value, const std::string& place);
  bool objects(const Json& schema, const Json& value, const std::string& place);
  bool members(const Json& schema, const Json& value, const std::string& place);
  bool combinations(const Json& schema, const Json& value, const std::string& place);
  bool fail(const std::string& place, const std::string& what);
  bool matches(const std::string& pattern, const std::string& text) const;
  /// Runs a check whose failure is no fault by itself.
  bool quietly(const Json& schema, const Json& value, const std::string& place);

  const std::map<std::string, std::unique_ptr<RE2>, std::less<>>& patterns_;
  const std::map<const Json*, const Json*>& refs_;
  std::string fault_;
  bool out_of_budget_ = false;
  int steps_ = 100'000;
  int depth_ = 0;
};

}  // namespace sandglass::activities::gateway
