#include "activities/agent/taskfile/taskfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "activities/agent/taskfile/arguments.h"
#include "activities/gateway/gateway.h"

namespace sandglass::activities::agent::taskfile {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGood = R"(name: fix
goal: make the test pass
inputs:
  - path: project
parameters:
  receiver: http://127.0.0.1:8099
targets: ["${param.receiver}"]
approvals: {level_2: ask, approvers: 2, expires: 1h}
timeouts: {task: 10m, step: 90s}
tools:
  http_request: {level: 3, grant: true}
plan:
  - name: test
    exec: {argv: [sh, run.sh], cwd: project}
    allow_failure: true
    extract:
      failing: {from: out, regex: '^(\w+): FAIL$'}
  - name: green
    when: {value: "${test.exit_code}", equals: 0}
    finish: {message: nothing to do}
  - name: pick
    choose:
      - when: {all: [{value: "${test.failing}", equals: a}, {not: {value: "${test.exit_code}", less: 1}}]}
        do:
          - name: patch-a
            exec: {argv: [sed, -i, -e, s/x/y/, a.sh]}
      - do:
          - {name: unknown, finish: {message: "no patch for ${test.failing}", failed: true}}
  - name: open
    http_request: {method: POST, url: "${param.receiver}/pulls"}
)";

std::string fault_of(std::string_view text) {
  const auto parsed = parse_task_yaml(text, "task.yaml");
  if (parsed) return "no fault";
  EXPECT_EQ(parsed.error().code, base::Code::task_invalid);
  return parsed.error().message;
}

std::string with(std::string_view line) {
  return "name: t\n" + std::string(line) + "\nplan:\n  - {name: a, exec: {argv: [ls]}}\n";
}

TEST(TaskFile, AGoodTaskIsReadWholeAndTheSameThroughItsJson) {
  const auto file = parse_task_yaml(kGood, "task.yaml");
  ASSERT_TRUE(file) << file.error().message;
  const std::string tree(64, 'a');
  const auto input = make_run_input(*file, {tree}, {{"receiver", "http://127.0.0.1:9"}});
  ASSERT_TRUE(input) << input.error().message;
  const auto run = parse_run_input(*input);
  ASSERT_TRUE(run) << run.error().message;
  const Task& task = run->task;
  EXPECT_EQ(task.name, "fix");
  EXPECT_EQ(task.inputs.at(0).to, "project");
  EXPECT_EQ(task.targets.at(0), "http://127.0.0.1:9");
  EXPECT_EQ(task.tools.at("http_request").level, 3);
  EXPECT_EQ(task.approvals.approvers, 2U);
  EXPECT_EQ(task.approvals.expires_ms, 3'600'000);
  EXPECT_EQ(task.timeouts.step_ms, 90'000);
  ASSERT_EQ(task.plan.size(), 4U);
  EXPECT_EQ(task.plan[0].extracts.at(0).regex, R"(^(\w+): FAIL$)");
  EXPECT_TRUE(task.plan[0].allow_failure);
  EXPECT_EQ(task.plan[1].when.test, Condition::Test::equals);
  EXPECT_EQ(task.plan[1].when.operand, "0");
  ASSERT_EQ(task.plan[2].branches.size(), 2U);
  EXPECT_EQ(task.plan[2].branches[0].when.parts.size(), 2U);
  EXPECT_TRUE(task.plan[2].branches[1].actions.at(0).failed);
  EXPECT_EQ(task.plan[3].tool, "http_request");
}

TEST(TaskFile, AnUnknownFieldIsNamedWithItsPlaceAndTheKnownOnes) {
  EXPECT_THAT(fault_of(with("colour: red")),
              AllOf(StartsWith("task.yaml:2:1: unknown field \"colour\""), HasSubstr("goal")));
  // Addresses inside are the operator's business alone (V14).
  EXPECT_THAT(fault_of(with("network:\n  - {host: a.example, internal: [127.0.0.1/32]}")),
              HasSubstr("unknown field \"internal\""));
  EXPECT_THAT(fault_of(with("network:\n  internal: [127.0.0.1/32]")),
              StartsWith("task.yaml:2:1: \"network\" must be a list"));
}

TEST(TaskFile, AWrongTypeIsNamedWithItsPlace) {
  EXPECT_THAT(fault_of(with("goal: [a]")), StartsWith("task.yaml:2:1: \"goal\" must be a text, not a list"));
  EXPECT_THAT(fault_of(with("timeouts: {task: 5}")), HasSubstr("must be a time such as 90s"));
  EXPECT_THAT(fault_of(with("timeouts: {task: 721h}")), HasSubstr("at most 720h"));
  EXPECT_THAT(fault_of(with("approvals: {approvers: 1.5}")), HasSubstr("whole number from 1 to 10"));
  EXPECT_THAT(fault_of(with("approvals: {approvers: 18446744073709551615}")), HasSubstr("whole number"));
  EXPECT_THAT(fault_of("[1, 2]"), HasSubstr("must be a mapping"));
  EXPECT_THAT(fault_of(""), HasSubstr("exactly one YAML document"));
}

TEST(TaskFile, AWrongArgumentIsNamedWithItsPlaceBeforeAnythingRuns) {
  const auto action = [](std::string_view text) {
    return fault_of("name: t\nparameters: {x: y}\nplan:\n  - name: a\n    " + std::string(text) + "\n");
  };
  EXPECT_EQ(action("exec: {argv: echo hi}"), "task.yaml:5:12: \"argv\" must be a list, not a text");
  EXPECT_EQ(action("exec: {argv: [seq, 3]}"),
            "task.yaml:5:24: each of \"argv\" must be a text, not a number; put it in quotes");
  EXPECT_EQ(action("exec: {argv: []}"), "task.yaml:5:12: \"argv\" must not be empty");
  EXPECT_EQ(action("exec: {arvg: [ls]}"),
            "task.yaml:5:5: \"exec\" needs the field \"argv\"; add it\n"
            "task.yaml:5:12: unknown field \"arvg\" in \"exec\"; known are: argv, cwd, env, stdin");
  EXPECT_THAT(action("exec: {argv: [ls], env: {A: 1}}"), HasSubstr("\"A\" must be a text, not a number"));
  EXPECT_THAT(action("put_file: {path: a, content: b, executable: yes}"), HasSubstr("must be true or false"));
  EXPECT_THAT(action("http_request: {method: GET, url: 'http://a', settle_ms: soon}"),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(action("http_request: {method: GET, url: 'http://a', probe: 'http://a/{key}'}"),
              HasSubstr("\"probe\" must be a mapping"));
  EXPECT_THAT(action("artifact: {name: b}"), HasSubstr("give it text, file or blob"));
  EXPECT_THAT(action("artifact: {name: b, text: c, file: d}"), HasSubstr("give it text, file or blob"));
  // What becomes of a value is known only when the plan runs.
  EXPECT_EQ(action("exec: {argv: \"${param.x}\", env: {A: \"${param.x}\"}}"), "no fault");
}

// A run that was accepted before stays readable: its history is replayed with the same input.
TEST(TaskFile, ARunsInputIsNotHeldToTheArgumentsOfTheTaskFile) {
  const auto run =
      parse_run_input(R"({"task":{"name":"t","plan":[{"name":"a","exec":{"argv":["seq",3]}}]},"trees":[]})");
  ASSERT_TRUE(run) << run.error().message;
}

TEST(TaskFile, TheArgumentsThatItKnowsAreThoseOfTheToolsSchemas) {
  for (const auto& [tool, schema] : gateway::Gateway::with_built_ins().schemas()) {
    const auto parsed = nlohmann::json::parse(schema);
    std::set<std::string> of_schema;
    for (const auto& [name, value] : parsed.at("properties").items()) of_schema.insert(name);
    if (tool == "http_request")
      of_schema.insert({"json", "show"});  // the workflow's own, for body and approval
    std::set<std::string> required = parsed.at("required");
    std::set<std::string> known;
    std::set<std::string> needed;
    for (const Argument& argument : arguments_of(tool)) {
      known.emplace(argument.name);
      if (argument.required) needed.emplace(argument.name);
    }
    EXPECT_EQ(known, of_schema) << tool;
    EXPECT_EQ(needed, required) << tool;
  }
}

TEST(TaskFile, BadYamlIsNamedWithItsPlace) {
  EXPECT_THAT(fault_of("name: t\nplan: [a\nb: c"),
              AllOf(StartsWith("task.yaml:3:"), HasSubstr("not valid YAML")));
  EXPECT_THAT(fault_of("name: a\nname: b\nplan: []"),
              HasSubstr("2:1: the field \"name\" stands here a second time"));
  EXPECT_THAT(fault_of("name: !!python/object x\nplan: []"), HasSubstr("tag"));
  EXPECT_THAT(fault_of(std::string(2 << 20, '#')), HasSubstr("larger than 1 MiB"));
}

TEST(TaskFile, AliasesCannotMakeAShortTextHuge) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += "*a" + std::to_string(i - 1) + (j < 9 ? ", " : "]\n");
  }
  EXPECT_THAT(fault_of(text), HasSubstr("more than 20,000 values"));
  EXPECT_THAT(fault_of(std::string(5000, '[')),
              AllOf(StartsWith("task.yaml:1:"), HasSubstr("nested more than 40 levels")));

  std::string aliases;
  for (int i = 0; i < 10'000; ++i) aliases += "*a,";
  EXPECT_THAT(fault_of("name: t\ngoal: &a " + std::string(30'000, 'x') + "\nplan: [" + aliases + "]\n"),
              AllOf(StartsWith("task.yaml:3:"), HasSubstr("more than 1,048,576 bytes of text")));
}

TEST(TaskFile, LongNamesAroundManyValuesAreRefused) {
  std::string list;
  for (int i = 0; i < 1'000; ++i) list += "1,";
  EXPECT_THAT(fault_of("name: t\n? " + std::string(20'000, 'k') + "\n: [" + list + "]\n"),
              AllOf(StartsWith("task.yaml:3:"), HasSubstr("names of the fields"), HasSubstr("8 MiB")));
}

TEST(TaskFile, ParametersCannotMakeAShortTextHuge) {
  std::string uses;
  for (int i = 0; i < 1'000; ++i) uses += "${param.a}";
  const std::string head = "parameters: {a: " + std::string(20'000, 'x') + "}\n";
  EXPECT_THAT(fault_of(with(head + "template: '" + uses + "'")),
              AllOf(StartsWith("task.yaml:3:1: "), HasSubstr("1 MiB")));
  // All fields together.
  std::string targets;
  for (int i = 0; i < 100; ++i) targets += "'http://${param.a}',";
  EXPECT_THAT(fault_of(with(head + "targets: [" + targets + "]")),
              AllOf(StartsWith("task.yaml:3:"), HasSubstr("1 MiB")));
}

TEST(TaskFile, AMappingHasABoundedNumberOfFields) {
  std::string parameters;
  for (int i = 0; i < 1'000; ++i) parameters += "a" + std::to_string(i) + ": b,";
  EXPECT_EQ(fault_of(with("parameters: {" + parameters + "}")), "no fault");
  EXPECT_THAT(fault_of(with("parameters: {" + parameters + "a: b}")),
              StartsWith("task.yaml:2:1: \"parameters\" has more than 1,000 fields"));
}

TEST(TaskFile, ARunInputThatIsTooDeepOrNoJsonIsRefused) {
  const std::string deep = std::string(30'000, '[') + std::string(30'000, ']');
  for (const std::string& input : {deep, R"({"task":)" + deep + R"(,"trees":[]})", std::string("{")}) {
    const auto parsed = parse_run_input(input);
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message, AllOf(StartsWith("input: "), HasSubstr("sandglass run FILE")));
  }
}

TEST(TaskFile, NamesAreUniqueAndValuesComeFromEarlierActionsOnly) {
  EXPECT_THAT(
      fault_of("name: t\nplan:\n  - {name: a, exec: {argv: [ls]}}\n  - {name: a, exec: {argv: [ls]}}\n"),
      StartsWith("task.yaml:4:6: another action is named \"a\""));
  EXPECT_THAT(fault_of("name: t\nplan:\n  - {name: a, exec: {argv: [\"${b.out}\"]}}\n"),
              HasSubstr("no action before"));
  EXPECT_THAT(fault_of("name: t\nplan:\n  - {name: a, exec: {argv: [\"${param.x}\"]}}\n"),
              HasSubstr("no such parameter"));
  EXPECT_THAT(
      fault_of("name: t\nplan:\n  - name: c\n    choose:\n      - do: [{name: x, exec: {argv: [ls]}}]\n"
               "      - do: [{name: y, exec: {argv: [\"${x.out}\"]}}]\n"),
      HasSubstr("no action before"));
  EXPECT_EQ(fault_of("name: t\nplan:\n  - {name: a, exec: {argv: [\"$${b.out}\"]}}\n"), "no fault");
}

TEST(TaskFile, AValueIsNeverSplicedIntoAProgramText) {
  const std::string head = "name: t\nparameters: {x: y}\nplan:\n  - {name: a, exec: {argv: ";
  EXPECT_THAT(fault_of(head + "[/bin/sh, -c, \"echo ${param.x}\"]}}\n"), HasSubstr("would be run as code"));
  EXPECT_THAT(fault_of(head + "[env, bash, -ec, \"echo ${param.x}\"]}}\n"),
              HasSubstr("would be run as code"));
  EXPECT_EQ(fault_of(head + "[sh, -c, 'echo \"$1\"', sh, \"${param.x}\"]}}\n"), "no fault");
}

TEST(TaskFile, AnInputStaysBelowWork) {
  for (const char* to : {"/etc", "../x", "a/../../x", "a//b", "."}) {
    EXPECT_THAT(fault_of(with("inputs: [{path: p, to: \"" + std::string(to) + "\"}]")),
                HasSubstr("below /workspace"))
        << to;
  }
  EXPECT_THAT(fault_of(with("inputs: [{path: a/p}, {path: b/p}]")), HasSubstr("another input goes to \"p\""));
}

TEST(TaskFile, SeveralFaultsAreAllToldAndAControlCharacterIsShownEscaped) {
  EXPECT_EQ(fault_of("name: t\nparameters: {n: 1}\nplan:\n  - {name: a, exec: {argv: [\"${param.n}\"]}}\n"),
            "task.yaml:2:14: a parameter must be a text, not a number; put it in quotes");
  EXPECT_THAT(
      fault_of("name: t\nbrian: plan\nplan: []\n"),
      StartsWith("task.yaml:2:1: unknown field \"brian\" in a task; known are: name, goal, session, brain, "
                 "parameters, template, inputs,"));
  const std::string faults = fault_of(with("x: 1\ny: 2"));
  EXPECT_THAT(faults, AllOf(HasSubstr("2:1: unknown field \"x\""), HasSubstr("3:1: unknown field \"y\"")));
  EXPECT_THAT(fault_of(with("\"a\\e[2Jb\": 1")), HasSubstr("\\x1b"));
}

TEST(TaskFile, AnInputsPathMayBeMadeOfParameters) {
  const std::string text =
      with("parameters: {variant: one}\ninputs: [{path: \"projects/${param.variant}\", to: project}]");
  EXPECT_EQ(parse_task_yaml(text, "task.yaml")->task.inputs.at(0).path, "projects/one");
  EXPECT_EQ(parse_task_yaml(text, "task.yaml", {{"variant", "two"}})->task.inputs.at(0).path, "projects/two");
  EXPECT_FALSE(parse_task_yaml(text, "task.yaml", {{"variants", "two"}}));
  EXPECT_THAT(fault_of(with("inputs: [{path: \"${param.x}\"}]")), HasSubstr("only parameters of the task"));
}

TEST(TaskFile, AParameterThatTheTaskDoesNotHaveIsRefused) {
  const auto file = parse_task_yaml(kGood, "task.yaml");
  ASSERT_TRUE(file);
  const auto input = make_run_input(*file, {std::string(64, 'a')}, {{"reciever", "x"}});
  ASSERT_FALSE(input);
  EXPECT_THAT(input.error().message, HasSubstr("it has: receiver"));
}

TEST(TaskFile, TheExampleIsAGoodTask) {
  const char* source = std::getenv("SANDGLASS_SOURCE");
  const std::string file =
      std::string(source == nullptr ? "." : source) + "/examples/fix-failing-test/task.yaml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const auto parsed = parse_task_yaml(text.str(), file, {{"variant", "slug"}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->task.inputs.at(0).path, "projects/slug");
}

TEST(TaskFile, NamesWhereTheSandboxMayGoAndNeverAnInternalTarget) {  // N2, V14
  const auto file = parse_task_yaml(
      "name: t\nparameters: {host: a.example.com, port: \"8443\"}\ntemplate: network\nnetwork:\n"
      "  - {host: \"${param.host}\", ports: [443, \"${param.port}\"], methods: [CONNECT]}\n"
      "  - host: \"*.b.example.com\"\nplan:\n  - {name: a, exec: {argv: [ls]}}\n",
      "task.yaml");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->task.network.size(), 2U);
  EXPECT_EQ(file->task.network[0].host, "a.example.com");
  EXPECT_EQ(file->task.network[0].ports, (std::vector<std::uint16_t>{443, 8443}));
  EXPECT_EQ(file->task.network[0].methods, std::vector<std::string>{"CONNECT"});
  EXPECT_TRUE(file->task.network[1].ports.empty());
  for (const char* bad :
       {"network: {internal: []}", "network: [{host: a.b, ranges: [127.0.0.1/32]}]", "network: [{}]",
        "network: [{host: \"\"}]", "network: [{host: https://a.b}]", "network: [{host: a.b, ports: [0]}]",
        "network: [{host: a.b, ports: [70000]}]", "network: [{host: a.b, ports: [\"80x\"]}]",
        "network: [{host: a.b, raw_tunnel: true}]", "internal: [{host: a.b}]"}) {
    EXPECT_THAT(fault_of(with(bad)), StartsWith("task.yaml:")) << bad;
  }
}

}  // namespace
}  // namespace sandglass::activities::agent::taskfile
