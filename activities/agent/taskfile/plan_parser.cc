#include "activities/agent/taskfile/plan_parser.h"

#include <algorithm>

#include "activities/agent/taskfile/arguments.h"

namespace sandglass::activities::agent::taskfile {

namespace {

/// Fields of an action that say what it does; every other name there is a fault.
constexpr std::string_view kTools[] = {"exec", "put_file", "get_file", "http_request"};
constexpr std::pair<std::string_view, PlanAction::Kind> kOthers[] = {{"list", PlanAction::Kind::list},
                                                                     {"diff", PlanAction::Kind::diff},
                                                                     {"artifact", PlanAction::Kind::artifact},
                                                                     {"choose", PlanAction::Kind::choose},
                                                                     {"finish", PlanAction::Kind::finish}};

/// Programs whose "-c" takes a program text: values must reach them as arguments, never spliced into the
/// text.
bool is_interpreter(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  constexpr std::string_view kNames[] = {"sh",     "bash", "dash", "ash",  "ksh", "zsh", "busybox", "python3",
                                         "python", "perl", "ruby", "node", "awk", "sed", "env"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

}  // namespace

bool is_plain_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && name.size() <= 64 && letter(name[0]) && std::ranges::all_of(name, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::vector<PlanAction> PlanParser::actions(const std::vector<Node>& nodes) {
  std::vector<PlanAction> actions;
  actions.reserve(nodes.size());
  for (const Node& node : nodes) actions.push_back(action(node));
  return actions;
}

PlanAction PlanParser::action(const Node& node) {
  PlanAction action;
  Fields fields(node, "an action", faults_);
  action.name = fields.required_text("name");
  if (!action.name.empty() && !is_plain_name(action.name)) {
    faults_.add(fields.get("name"), "\"" + action.name + "\" is no name; use letters, digits, '_' and '-'");
  }
  if (action.name == "param")
    faults_.add(fields.get("name"), "\"param\" stands for the parameters; choose another name");
  action.when = condition(fields.get("when"));
  kind_of_action(fields, action);
  action.allow_failure = fields.flag("allow_failure", false);
  action.timeout_ms = fields.duration("timeout", 0);
  action.extracts = extracts(fields.get("extract"));
  if (!action.name.empty() && !names_.insert(action.name).second) {
    faults_.add(fields.get("name"),
                "another action is named \"" + action.name + "\" already; names are unique");
  }
  return action;
}

void PlanParser::kind_of_action(Fields& fields, PlanAction& action) {
  int kinds = 0;
  for (const std::string_view tool_name : kTools) {
    if (!fields.has(tool_name)) continue;
    ++kinds;
    tool(fields, std::string(tool_name), action);
  }
  for (const auto& [name, kind] : kOthers) {
    if (!fields.has(name)) continue;
    ++kinds;
    action.kind = kind;
    const Node node = fields.get(name);
    if (kind == PlanAction::Kind::choose) {
      choose(node, action);
    } else if (kind == PlanAction::Kind::finish) {
      finish(node, action);
    } else {
      action.arguments = arguments(node, name);
    }
  }
  if (kinds != 1 && fields.node()) {
    faults_.add(fields.node(),
                "an action does one thing: give it one of exec, put_file, get_file, http_request, list, "
                "diff, artifact, choose, finish");
  }
}

void PlanParser::tool(Fields& fields, const std::string& tool, PlanAction& action) {
  const Node node = fields.get(tool);
  action.kind = PlanAction::Kind::tool;
  action.tool = tool;
  action.arguments = arguments(node, tool);
  if (tool != "exec" || !node.value->is_object() || !node.value->contains("argv")) return;
  const auto& argv = (*node.value)["argv"];
  if (!argv.is_array() || argv.empty() || !argv[0].is_string()) return;  // the tool's schema says it better
  if (!is_interpreter(argv[0].get_ref<const std::string&>())) return;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    if (!argv[i].is_string()) continue;
    const auto& text = argv[i].get_ref<const std::string&>();
    const bool program =
        text.size() >= 2 && text[0] == '-' && text[1] != '-' && text.find_first_of("ce") != std::string::npos;
    if (!program || i + 1 >= argv.size() || !argv[i + 1].is_string()) continue;
    if (argv[i + 1].get_ref<const std::string&>().find("${") != std::string::npos) {
      faults_.add(
          {&argv[i + 1], node.pointer + "/argv/" + std::to_string(i + 1)},
          "a value inside a program text would be run as code; pass it as a further argument (\"$1\")");
    }
  }
}

void PlanParser::choose(const Node& node, PlanAction& action) {
  const std::set<std::string> before = names_;
  std::set<std::string> after = before;
  for (const Node& item : items_of(node, "\"choose\"", faults_)) {
    Fields fields(item, "a branch", faults_);
    Branch branch;
    branch.when = condition(fields.get("when"));
    names_ = before;
    // Names are unique over all branches, but a branch sees only what ran before it.
    const std::vector<Node> inner = items_of(fields.require("do"), "\"do\"", faults_);
    branch.actions = actions(inner);
    for (const std::string& name : names_) {
      if (!before.contains(name) && !after.insert(name).second) {
        faults_.add(item, "another branch has an action named \"" + name + "\" already; names are unique");
      }
    }
    action.branches.push_back(std::move(branch));
  }
  names_ = after;
}

void PlanParser::finish(const Node& node, PlanAction& action) {
  Fields fields(node, "\"finish\"", faults_);
  const Node message = fields.require("message");
  std::string text;
  if (take_text(message, "\"message\"", faults_, text)) check_text(message, text);
  action.failed = fields.flag("failed", false);
  if (message) action.arguments = nlohmann::ordered_json{{"message", text}}.dump();
}

std::vector<Condition> PlanParser::conditions(const Node& node) {
  std::vector<Condition> parts;
  for (const Node& item : items_of(node, "a list of conditions", faults_)) parts.push_back(condition(item));
  return parts;
}

Condition PlanParser::condition(const Node& node) {
  Condition made;
  if (!node) return made;
  Fields fields(node, "a condition", faults_);
  if (fields.has("all") || fields.has("any")) {
    const bool all = fields.has("all");
    made.test = all ? Condition::Test::all : Condition::Test::any;
    made.parts = conditions(fields.get(all ? "all" : "any"));
    if (made.parts.empty()) faults_.add(node, "a list of conditions must not be empty");
    return made;
  }
  if (fields.has("not")) {
    made.test = Condition::Test::none;
    made.parts.push_back(condition(fields.get("not")));
    return made;
  }
  return comparison(fields);
}

Condition PlanParser::comparison(Fields& fields) {
  Condition made;
  const Node value = fields.require("value");
  if (value) {
    check_variables(value);
    made.value = value.value->dump();
  }
  const std::pair<std::string_view, Condition::Test> tests[] = {
      {"equals", Condition::Test::equals},     {"matches", Condition::Test::matches},
      {"contains", Condition::Test::contains}, {"less", Condition::Test::less},
      {"greater", Condition::Test::greater},   {"defined", Condition::Test::defined}};
  int found = 0;
  for (const auto& [name, test] : tests) {
    const Node operand = fields.get(name);
    if (!operand) continue;
    ++found;
    check_variables(operand);
    made.test = test;
    made.operand = operand.value->dump();
    if (test == Condition::Test::matches && !operand.value->is_string()) {
      faults_.add(operand, "\"matches\" must be a regular expression in quotes");
    }
    if (test == Condition::Test::defined && !operand.value->is_boolean()) {
      faults_.add(operand, "\"defined\" must be true or false");
    }
  }
  if (found != 1 && fields.node()) {
    faults_.add(fields.node(),
                "a condition compares one value in one way: equals, matches, contains, less, greater or "
                "defined");
  }
  return made;
}

std::vector<Extract> PlanParser::extracts(const Node& node) {
  std::vector<Extract> extracts;
  if (!node) return extracts;
  Fields all(node, "\"extract\"", faults_);
  for (const std::string& name : all.names()) {
    const Node item = all.get(name);
    Fields fields(item, "an extract", faults_);
    Extract extract{.name = name, .from = fields.text("from", "out"), .regex = fields.text("regex")};
    extract.group = static_cast<int>(fields.number("group", 1, 0, 9));
    extract.all = fields.flag("all", false);
    if (!is_plain_name(name))
      faults_.add(item, "\"" + name + "\" is no name; use letters, digits, '_' and '-'");
    extracts.push_back(std::move(extract));
  }
  return extracts;
}

std::string PlanParser::arguments(const Node& node, std::string_view action) {
  if (!node.value->is_object()) {
    faults_.add(node, "this must be a mapping of arguments");
    return "{}";
  }
  check_variables(node);
  if (source_ == Source::task_file) check_arguments(node, action, faults_);
  return node.value->dump();
}

void PlanParser::check_variables(const Node& node) {
  if (!node) return;
  if (node.value->is_string()) return check_text(node, node.value->get<std::string>());
  if (node.value->is_array()) {
    for (const Node& item : items_of(node, "list", faults_)) check_variables(item);
  } else if (node.value->is_object()) {
    for (const auto& [name, value] : node.value->items())
      check_variables({&value, node.pointer + "/" + name});
  }
}

void PlanParser::check_text(const Node& node, const std::string& text) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    if (at > 0 && text[at - 1] == '$') continue;  // "$${" is a plain "${"
    const std::size_t end = text.find('}', at);
    if (end == std::string::npos) {
      faults_.add(node, "\"${\" without \"}\"; write \"$${\" for a plain one");
      return;
    }
    const std::string path = text.substr(at + 2, end - at - 2);
    const std::string first = path.substr(0, path.find('.'));
    if (first == "param") {
      if (!parameters_.contains(path.substr(std::min(path.size(), std::string("param.").size())))) {
        faults_.add(node, "${" + path + "}: no such parameter; declare it under \"parameters\"");
      }
    } else if (!names_.contains(first)) {
      faults_.add(node, "${" + path + "}: no action before this one is named \"" + first + "\"");
    }
  }
}

}  // namespace sandglass::activities::agent::taskfile
