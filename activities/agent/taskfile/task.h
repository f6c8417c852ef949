// A task as its file says it, checked (A1). Values only. Arguments are JSON texts in which "${name.field}"
// stands for a value that is known later; they are filled in by the brain as JSON values, never as text of a
// command (no shell ever sees them joined).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sandglass::activities::agent::taskfile {

/// A test of values that earlier actions gave. `value` and `operand` are JSON texts.
struct Condition {
  enum class Test : std::uint8_t {
    always,
    equals,
    matches,
    contains,
    less,
    greater,
    defined,
    all,
    any,
    none
  };
  Test test = Test::always;
  std::string value;
  std::string operand;
  std::vector<Condition> parts;  // of all, any, none
};

/// A value read out of an action's result: `name` becomes a field of it.
struct Extract {
  std::string name;
  std::string from;   // field of the result: "out", "err", "body", "json.id"
  std::string regex;  // RE2; empty: the field as it is
  int group = 1;
  bool all = false;  // every match, as an array; else the first, or null
};

struct Branch;

struct PlanAction {
  enum class Kind : std::uint8_t {
    tool,      // through the gateway: exec, put_file, get_file, http_request …
    list,      // the names of the files below a folder of the sandbox
    diff,      // what changed in an imported folder, as a unified diff
    artifact,  // keep a text, a file of the sandbox or a stored blob
    choose,    // the first branch whose condition holds
    finish,    // the run ends here
  };
  Kind kind = Kind::tool;
  std::string name;  // unique in the task; its result is "${name…}"
  Condition when;
  std::string tool;
  std::string arguments;  // JSON object
  std::vector<Extract> extracts;
  bool allow_failure = false;   // exec: an exit code other than 0 does not end the run
  std::int64_t timeout_ms = 0;  // 0: the task's step timeout
  std::vector<Branch> branches;
  bool failed = false;  // finish: the run fails with the message
};

struct Branch {
  Condition when;
  std::vector<PlanAction> actions;
};

struct TaskInput {
  std::string path;  // on the caller's machine, relative to the task file
  std::string to;    // below the sandbox's /workspace
};

/// Where the sandbox may go, within what the operator allows. Only "network" templates have a way out.
struct Destination {
  std::string host;                  // "api.example.com", "*.example.com"
  std::vector<std::uint16_t> ports;  // empty: 80 and 443
  std::vector<std::string> methods;  // empty: all; a tunnel is CONNECT
};

struct ToolRule {
  int level = 0;       // only raises what the tool declares
  bool grant = false;  // level 3 is denied without it
};

struct ApprovalRules {
  bool ask_at_level_2 = true;
  std::uint32_t approvers = 1;
  std::int64_t expires_ms = 24 * 3'600'000;
};

struct Timeouts {
  std::int64_t task_ms = 30 * 60'000;
  std::int64_t step_ms = 5 * 60'000;
  std::int64_t queue_ms = 30'000;
};

struct Task {
  std::string name;
  std::string goal;
  std::string template_name = "default";
  std::string session;
  std::vector<TaskInput> inputs;
  std::map<std::string, std::string> parameters;  // defaults; "${param.name}"
  std::map<std::string, ToolRule> tools;          // empty: every tool at its own level
  std::vector<std::string> targets;  // allow-list of level 2: origins such as https://api.example.com
  std::vector<Destination> network;
  ApprovalRules approvals;
  std::vector<std::string> outputs;  // names of artifacts that a run must have made to succeed
  Timeouts timeouts;
  std::vector<PlanAction> plan;
};

}  // namespace sandglass::activities::agent::taskfile
