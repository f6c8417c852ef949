// What a plan knows while it runs: parameters and the results of its actions, as JSON. Fills "${name.field}"
// into arguments as JSON values, decides conditions, and reads values out of results (RE2). Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "activities/agent/taskfile/task.h"
#include "engine/base/result.h"

namespace sandglass::activities::agent {

namespace base = engine::base;
using Json = nlohmann::json;

class PlanValues {
 public:
  explicit PlanValues(const std::map<std::string, std::string>& parameters);

  /// Once for each action. arguments_invalid: all results together are too large.
  base::Status set(const std::string& action, Json result);

  /// Parameters and actions that have a result, in order.
  std::vector<std::string> names() const;
  /// `text` is JSON. A string that is one "${…}" becomes that value; inside a longer string the value's text
  /// is put in (texts as they are, other scalars as JSON). "$${" stands for "${". arguments_invalid: a value
  /// that is not there, or all values together are too large.
  base::Result<Json> fill(std::string_view text) const;
  /// What is not there counts as null. arguments_invalid: a comparison that makes no sense.
  base::Result<bool> holds(const taskfile::Condition& condition) const;

 private:
  base::Result<Json> filled(const Json& value, std::size_t& room) const;
  base::Result<Json> filled_text(const std::string& text, std::size_t& room) const;
  const Json* find(std::string_view path) const;
  base::Result<Json> value_or_null(const std::string& json) const;

  Json values_ = Json::object();
  std::size_t kept_ = 0;  // bytes of results
};

/// Adds each extract as a field of the result: the first match of its group, null if there is none, or all of
/// them. Patterns see lines ("^" and "$" match at line ends). arguments_invalid: no pattern, no text to
/// search, or too much was found.
base::Status extract_into(Json& result, const std::vector<taskfile::Extract>& extracts);

/// A field of a result: "out", "json.items.0.id". Null if it is not there.
const Json* field_of(const Json& result, std::string_view path);

}  // namespace sandglass::activities::agent
