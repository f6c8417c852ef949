// The gateway: the tools that a run may use (T1). prepare() checks a call and says what it becomes; it
// performs nothing. "Not executed: invalid input" (arguments_invalid, tool_unknown) is a class of its own and
// leaves no trace outside (FR-126).
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "activities/gateway/schema.h"
#include "activities/operations/effect_tool.h"
#include "activities/policy/policy.h"
#include "engine/core/ports/activity.h"
#include "engine/run/types.h"

namespace sandglass::activities::gateway {

namespace core = engine::core;
using Json = nlohmann::json;

/// A tool as it is registered. Functions see arguments that the schema has accepted.
struct Tool {
  std::string name;
  std::string description;
  std::string schema;  // JSON Schema of the arguments, kept byte for byte
  int level = 0;       // declared; `level_of` may raise it by the arguments
  std::function<int(std::string_view)> level_of;
  std::int64_t timeout_ms = 30'000;
  std::string
      activity;  // of a step in a sandbox; empty: an operation, performed by the effect tool of this name
  std::function<base::Status(std::string_view)> check;              // beyond the schema
  std::function<std::string(std::string_view)> target;              // origin that is reached
  std::function<engine::run::Recovery(std::string_view)> recovery;  // operations
};

/// A checked call.
struct Call {
  std::string tool;
  Json arguments;
  policy::Decision decision;
  std::string target;
  std::string
      tool_digest;  // SHA-256 of name, description and schema: an approval is for this tool as it is (FR-132)
  bool operation = false;
  std::string activity;                             // steps
  engine::run::StepOptions step_options;            // steps
  engine::run::OperationOptions operation_options;  // operations
};

/// Filled by the composition root, read-only afterwards.
class Gateway {
 public:
  /// already_exists: two tools of one name (ADV-G14); schema_invalid.
  base::Status add(Tool tool);
  /// exec, put_file, get_file, http_request.
  static Gateway with_built_ins();

  /// tool_unknown, arguments_invalid. A denial is no error: it is the decision's verdict.
  base::Result<Call> prepare(const std::string& tool, const Json& arguments, const policy::Policy& policy,
                             std::int64_t timeout_ms = 0) const;

  std::map<std::string, std::string> schemas() const;  // by tool

 private:
  struct Entry {
    Tool tool;
    Schema schema;
    std::string digest;
  };
  std::map<std::string, Entry> tools_;
};

}  // namespace sandglass::activities::gateway
