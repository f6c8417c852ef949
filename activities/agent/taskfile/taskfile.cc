#include "activities/agent/taskfile/taskfile.h"

#include <algorithm>
#include <charconv>

#include "activities/agent/taskfile/document.h"
#include "activities/agent/taskfile/plan_parser.h"

namespace sandglass::activities::agent::taskfile {

namespace {

constexpr std::size_t kMaxDestinations = 64;
/// Of values of parameters: a short text can name a long value very often.
constexpr std::size_t kMaxFilled = std::size_t{1} << 20;

/// A path below something: relative, without "." and ".." parts.
bool stays_below(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return true;
}

class TaskParser {
 public:
  TaskParser(Faults& faults, const std::map<std::string, std::string>& given, Source source)
      : faults_(faults), given_(given), source_(source) {}

  Task parse(const Node& root) {
    Fields fields(root, "a task", faults_);
    task_.name = fields.required_text("name");
    if (!task_.name.empty() && !is_plain_name(task_.name)) {
      faults_.add(fields.get("name"), "\"" + task_.name + "\" is no name; use letters, digits, '_' and '-'");
    }
    task_.goal = fields.text("goal");
    task_.session = fields.text("session");
    if (const std::string brain = fields.text("brain", "plan"); brain != "plan") {
      faults_.add(fields.get("brain"), "the brain \"" + brain + "\" is not known; use \"plan\"");
    }
    parameters(fields.get("parameters"));
    task_.template_name = fields.text("template", "default");
    resolve(fields.get("template"), task_.template_name);
    for (const Node& node : fields.list("inputs")) input(node);
    tools(fields.get("tools"));
    for (const Node& node : fields.list("targets")) target(node);
    for (const Node& node : fields.list("network")) destination(node);
    approvals(fields.get("approvals"));
    timeouts(fields.get("timeouts"));
    task_.outputs = fields.texts("outputs");
    std::set<std::string> names;
    for (const auto& [name, value] : task_.parameters) names.insert(name);
    const Node plan = fields.require("plan");
    task_.plan = PlanParser(faults_, names, source_).actions(items_of(plan, "\"plan\"", faults_));
    if (plan && plan.value->is_array() && plan.value->empty()) faults_.add(plan, "the plan has no action");
    return std::move(task_);
  }

 private:
  void input(const Node& node) {
    Fields fields(node, "an input", faults_);
    TaskInput made{.path = fields.required_text("path"), .to = fields.text("to")};
    resolve(fields.get("path"), made.path);
    if (made.to.empty()) made.to = made.path.substr(made.path.rfind('/') + 1);
    if (!stays_below(made.to)) {
      faults_.add(fields.get("to"), "\"to\" must be a relative path below /workspace, without \"..\"");
    }
    const bool taken =
        std::ranges::any_of(task_.inputs, [&](const TaskInput& other) { return other.to == made.to; });
    if (taken) faults_.add(node, "another input goes to \"" + made.to + "\" already");
    task_.inputs.push_back(std::move(made));
  }

  void parameters(const Node& node) {
    if (!node) return;
    Fields fields(node, "\"parameters\"", faults_);
    for (const std::string& name : fields.names()) {
      std::string value;
      const Node item = fields.get(name);
      if (!is_plain_name(name))
        faults_.add(item, "\"" + name + "\" is no name; use letters, digits, '_' and '-'");
      take_text(item, "a parameter", faults_, value);
      task_.parameters[name] = value;  // one of another type has its fault already
    }
    for (const auto& [name, value] : given_) {
      if (task_.parameters.contains(name)) task_.parameters[name] = value;
    }
  }

  void tools(const Node& node) {
    if (!node) return;
    Fields fields(node, "\"tools\"", faults_);
    for (const std::string& name : fields.names()) {
      Fields rule(fields.get(name), "a tool's rule", faults_);
      task_.tools[name] = {.level = static_cast<int>(rule.number("level", 0, 0, 3)),
                           .grant = rule.flag("grant", false)};
    }
  }

  void target(const Node& node) {
    std::string text;
    if (!take_text(node, "a target", faults_, text)) return;
    resolve(node, text);
    if (!text.starts_with("http://") && !text.starts_with("https://")) {
      faults_.add(node, "a target is an origin such as https://api.example.com, or a parameter that is one");
    }
    task_.targets.push_back(std::move(text));
  }

  void destination(const Node& node) {
    Fields fields(node, "a destination", faults_);
    Destination made{.host = fields.required_text("host"), .ports = {}, .methods = fields.texts("methods")};
    resolve(fields.get("host"), made.host);
    if (made.host.empty() || made.host.find_first_of("/@ ") != std::string::npos) {
      faults_.add(fields.get("host"), "\"host\" is a host name such as api.example.com, not an URL");
    }
    for (const Node& port : fields.list("ports")) {
      std::uint64_t number = 0;
      if (port.value->is_number_unsigned()) number = port.value->get<std::uint64_t>();
      if (port.value->is_string()) number = port_number(port);
      if (number < 1 || number > 65535) faults_.add(port, "a port is a whole number from 1 to 65535");
      made.ports.push_back(static_cast<std::uint16_t>(number));
    }
    if (task_.network.size() >= kMaxDestinations) faults_.add(node, "there are more than 64 destinations");
    task_.network.push_back(std::move(made));
  }

  /// Of a text, in which a parameter may stand; 0: it is none.
  std::uint64_t port_number(const Node& node) {
    std::string text = node.value->get<std::string>();
    resolve(node, text);
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : 0;
  }

  /// Puts the parameters' values into a text that is needed before the plan runs.
  void resolve(const Node& node, std::string& text) {
    if (text.find("${") == std::string::npos) return;
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", from)) {
      const std::size_t end = text.find('}', at);
      const std::string path = end == std::string::npos ? text.substr(at) : text.substr(at + 2, end - at - 2);
      const auto value = task_.parameters.find(path.starts_with("param.") ? path.substr(6) : "");
      if (value == task_.parameters.end()) {
        faults_.add(
            node,
            "${" + path + "}: only parameters of the task can stand here; declare it under \"parameters\"");
        return;
      }
      if (value->second.size() > room_) {
        faults_.add(node,
                    "with the values of its parameters filled in the task has more than 1 MiB of them; "
                    "use shorter values");
        return;
      }
      room_ -= value->second.size();
      out.append(text, from, at - from).append(value->second);
      from = end + 1;
    }
    text = out.append(text, from);
  }

  void approvals(const Node& node) {
    if (!node) return;
    Fields fields(node, "\"approvals\"", faults_);
    const std::string level_2 = fields.text("level_2", "ask");
    if (level_2 != "ask" && level_2 != "allow") {
      faults_.add(fields.get("level_2"), "\"level_2\" must be \"ask\" or \"allow\"; level 3 is always asked");
    }
    task_.approvals.ask_at_level_2 = level_2 != "allow";
    task_.approvals.approvers = static_cast<std::uint32_t>(fields.number("approvers", 1, 1, 10));
    task_.approvals.expires_ms = fields.duration("expires", task_.approvals.expires_ms);
  }

  void timeouts(const Node& node) {
    if (!node) return;
    Fields fields(node, "\"timeouts\"", faults_);
    task_.timeouts.task_ms = fields.duration("task", task_.timeouts.task_ms);
    task_.timeouts.step_ms = fields.duration("step", task_.timeouts.step_ms);
    task_.timeouts.queue_ms = fields.duration("queue", task_.timeouts.queue_ms);
  }

  Faults& faults_;
  const std::map<std::string, std::string>& given_;
  const Source source_;
  Task task_;
  std::size_t room_ = kMaxFilled;
};

base::Result<Task> parse_task(const Document& document, const Node& root,
                              const std::map<std::string, std::string>& given, Source source) {
  Faults faults(document);
  Task task = TaskParser(faults, given, source).parse(root);
  if (!faults.empty()) return faults.error();
  return task;
}

base::Status check_parameters(const Task& task, const std::map<std::string, std::string>& given) {
  for (const auto& [name, value] : given) {
    if (task.parameters.contains(name)) continue;
    std::string known;
    for (const auto& [declared, fallback] : task.parameters) known += (known.empty() ? "" : ", ") + declared;
    return base::fail(base::Code::task_invalid, "the task has no parameter \"" + name +
                                                    "\"; it has: " + (known.empty() ? "none" : known));
  }
  return {};
}

}  // namespace

base::Result<TaskFile> parse_task_yaml(std::string_view text, std::string_view file,
                                       const std::map<std::string, std::string>& parameters) {
  auto document = read_yaml(text, file);
  if (!document) return std::unexpected(document.error());
  auto task = parse_task(*document, {&document->root, ""}, parameters, Source::task_file);
  if (!task) return std::unexpected(task.error());
  if (auto known = check_parameters(*task, parameters); !known) return std::unexpected(known.error());
  return TaskFile{*std::move(task), document->root.dump()};
}

base::Result<std::string> make_run_input(const TaskFile& file, const std::vector<std::string>& trees,
                                         const std::map<std::string, std::string>& parameters) {
  if (trees.size() != file.task.inputs.size()) {
    return base::fail(base::Code::internal, "one uploaded tree for each input of the task is needed");
  }
  if (auto known = check_parameters(file.task, parameters); !known) return std::unexpected(known.error());
  auto input = nlohmann::ordered_json::object();
  input["task"] = nlohmann::ordered_json::parse(file.json);
  for (const auto& [name, value] : parameters) input["task"]["parameters"][name] = value;
  input["trees"] = trees;
  return input.dump();
}

base::Result<RunInput> parse_run_input(std::string_view json) {
  auto document = read_json(json);
  if (!document) return std::unexpected(document.error());
  Faults faults(*document);
  RunInput made;
  Node task;
  {
    Fields fields({&document->root, ""}, "the run's input", faults);
    task = fields.require("task");
    made.trees = fields.texts("trees");
  }
  if (!faults.empty()) return faults.error();
  auto parsed = parse_task(*document, task, {}, Source::run_input);
  if (!parsed) return std::unexpected(parsed.error());
  made.task = *std::move(parsed);
  if (made.trees.size() != made.task.inputs.size()) {
    return base::fail(base::Code::task_invalid,
                      "input: \"trees\" must name one uploaded tree for each input");
  }
  return made;
}

}  // namespace sandglass::activities::agent::taskfile
