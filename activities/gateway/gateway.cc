#include "activities/gateway/gateway.h"

#include <algorithm>
#include <utility>

#include "activities/gateway/http_tool.h"
#include "engine/base/check.h"
#include "engine/base/hash.h"

namespace sandglass::activities::gateway {

namespace {

constexpr std::string_view kExecSchema = R"({
  "type": "object",
  "properties": {
    "argv": {"type": "array", "items": {"type": "string", "maxLength": 65536}, "minItems": 1, "maxItems": 1024},
    "cwd": {"type": "string", "maxLength": 4096},
    "env": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "string", "maxLength": 65536},
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}},
    "stdin": {"type": "string"}
  },
  "required": ["argv"], "additionalProperties": false
})";

constexpr std::string_view kPutFileSchema = R"({
  "type": "object",
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4095},
    "content": {"type": "string"},
    "executable": {"type": "boolean"}
  },
  "required": ["path", "content"], "additionalProperties": false
})";

constexpr std::string_view kGetFileSchema = R"({
  "type": "object",
  "properties": {"path": {"type": "string", "minLength": 1, "maxLength": 4095}},
  "required": ["path"], "additionalProperties": false
})";

/// A host that does not answer is waited for longer than a new one needs to adopt its sandboxes (J16: 30 s +
/// 5 s); only platform failures are retryable at all.
constexpr core::RetryPolicy kSandboxRetry{
    .max_attempts = 14, .initial_interval_ms = 200, .max_interval_ms = 5'000};
/// The dispatcher's limit comes after the sandbox's own, which says more.
constexpr std::int64_t kGraceMs = 10'000;

Tool sandbox_tool(std::string name, int level, std::string_view schema, std::string description) {
  Tool tool{
      .name = name, .description = std::move(description), .schema = std::string(schema), .level = level};
  tool.activity = "sandbox." + name;
  return tool;
}

Tool http_tool() {
  Tool tool{.name = "http_request",
            .description = "One HTTP request to a target outside, at most once.",
            .schema = std::string(HttpTool::schema()),
            .level = 2};
  tool.level_of = HttpTool::level;
  tool.check = check_request;
  tool.target = [](std::string_view arguments) { return HttpTool().target(arguments); };
  tool.recovery = HttpTool::recovery;
  return tool;
}

}  // namespace

base::Status Gateway::add(Tool tool) {
  if (tools_.contains(tool.name)) {
    return base::fail(base::Code::already_exists,
                      "there is a tool named \"" + tool.name + "\" already; rename one");
  }
  auto schema = Schema::compile(tool.schema);
  if (!schema)
    return base::fail(schema.error().code, "tool \"" + tool.name + "\": " + schema.error().message);
  base::Sha256 hash;
  for (const std::string* part : {&tool.name, &tool.description, &tool.schema})
    hash.update_u64(part->size()).update(*part);
  const std::string name = tool.name;
  tools_.emplace(name, Entry{std::move(tool), *std::move(schema), hash.finish().hex()});
  return {};
}

Gateway Gateway::with_built_ins() {
  Gateway gateway;
  Tool exec = sandbox_tool("exec", 1, kExecSchema, "Runs a command in the sandbox.");
  exec.timeout_ms = 300'000;
  for (Tool tool :
       {std::move(exec), sandbox_tool("put_file", 1, kPutFileSchema, "Writes a file in the sandbox."),
        sandbox_tool("get_file", 0, kGetFileSchema, "Reads a file of the sandbox."), http_tool()}) {
    const auto added = gateway.add(std::move(tool));
    SG_CHECK(added.has_value(), "a built-in tool is not acceptable");
  }
  return gateway;
}

base::Result<Call> Gateway::prepare(const std::string& name, const Json& arguments,
                                    const policy::Policy& policy, std::int64_t timeout_ms) const {
  const auto found = tools_.find(name);
  if (found == tools_.end()) {
    std::string known;
    for (const auto& [other, entry] : tools_) known += (known.empty() ? "" : ", ") + other;
    return base::fail(base::Code::tool_unknown,
                      "not executed: no tool named \"" + name + "\"; there are: " + known);
  }
  const auto& [tool, schema, digest] = found->second;
  const std::string text = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (auto checked = schema.check(text); !checked) {
    return base::fail(checked.error().code,
                      "not executed: invalid input for " + name + ": " + checked.error().message);
  }
  if (tool.check) {
    if (auto checked = tool.check(text); !checked) {
      return base::fail(checked.error().code,
                        "not executed: invalid input for " + name + ": " + checked.error().message);
    }
  }
  Call call{.tool = name, .arguments = arguments, .tool_digest = digest};
  call.target = tool.target ? tool.target(text) : "";
  const int level = tool.level_of ? std::max(tool.level, tool.level_of(text)) : tool.level;
  call.decision = policy::decide(policy, {.tool = name, .declared_level = level, .target = call.target});
  const std::int64_t limit = timeout_ms > 0 ? timeout_ms : tool.timeout_ms;
  call.operation = tool.activity.empty();
  if (call.operation) {
    call.operation_options.recovery = tool.recovery ? tool.recovery(text) : engine::run::Recovery::ask;
    call.operation_options.probe = name + ".probe";
    call.operation_options.attempt_timeout_ms = std::min<std::int64_t>(limit, 120'000);
    call.operation_options.permit_ms = std::min(limit, call.operation_options.permit_ms);
    call.operation_options.settle_ms = arguments.value("settle_ms", call.operation_options.settle_ms);
    call.operation_options.target = call.target;
    call.operation_options.level = static_cast<std::uint32_t>(call.decision.level);
  } else {
    call.activity = tool.activity;
    call.step_options.retry = kSandboxRetry;
    call.step_options.start_to_close_ms = limit + kGraceMs;
  }
  return call;
}

std::map<std::string, std::string> Gateway::schemas() const {
  std::map<std::string, std::string> schemas;
  for (const auto& [name, entry] : tools_) schemas[name] = entry.tool.schema;
  return schemas;
}

}  // namespace sandglass::activities::gateway
