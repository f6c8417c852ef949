#include "activities/agent/taskfile/arguments.h"

#include <algorithm>
#include <map>
#include <string>

namespace sandglass::activities::agent::taskfile {

namespace {

using Type = ArgumentType;
using Shapes = std::map<std::string_view, std::vector<Argument>>;

bool is_open(const Node& node) {
  return node.value->is_string() && node.value->get_ref<const std::string&>().find("${") != std::string::npos;
}

std::string in_quotes(std::string_view name) {
  return "\"" + std::string(name) + "\"";
}

void check_text(const Node& node, const std::string& what, Faults& faults) {
  std::string text;
  if (!is_open(node)) take_text(node, what, faults, text);
}

void check_type(const Node& node, const Argument& argument, Faults& faults) {
  const std::string what = in_quotes(argument.name);
  switch (argument.type) {
    case Type::text:
      return check_text(node, what, faults);
    case Type::texts: {
      const auto items = items_of(node, what, faults);
      if (items.empty() && node.value->is_array()) faults.add(node, what + " must not be empty");
      for (const Node& item : items) check_text(item, "each of " + what, faults);
      return;
    }
    case Type::flag:
      if (!node.value->is_boolean()) faults.add(node, what + " must be true or false, without quotes");
      return;
    case Type::count:
      if (!node.value->is_number_unsigned()) faults.add(node, what + " must be a whole number");
      return;
    case Type::texts_by_name:
    case Type::mapping: {
      if (!node.value->is_object()) return faults.add(node, what + " must be a mapping (name: value)");
      if (argument.type == Type::mapping) return;
      Fields fields(node, what, faults);
      for (const std::string& name : fields.names()) check_text(fields.get(name), in_quotes(name), faults);
      return;
    }
    case Type::any:
      return;
  }
}

}  // namespace

const std::vector<Argument>& arguments_of(std::string_view action) {
  static const Shapes kShapes = {
      {"exec", {{"argv", Type::texts, true}, {"cwd"}, {"env", Type::texts_by_name}, {"stdin"}}},
      {"put_file", {{"path", Type::text, true}, {"content", Type::text, true}, {"executable", Type::flag}}},
      {"get_file", {{"path", Type::text, true}}},
      {"http_request",
       {{"method", Type::text, true},
        {"url", Type::text, true},
        {"headers", Type::texts_by_name},
        {"body"},
        {"json", Type::any},
        {"show", Type::texts_by_name},
        {"key_header"},
        {"recovery"},
        {"probe", Type::mapping},
        {"settle_ms", Type::count}}},
      {"list", {{"path"}}},
      {"diff", {{"path"}}},
      {"artifact", {{"name"}, {"text"}, {"file"}, {"blob"}}},
  };
  static const std::vector<Argument> kNone;
  const auto found = kShapes.find(action);
  return found == kShapes.end() ? kNone : found->second;
}

void check_arguments(const Node& node, std::string_view action, Faults& faults) {
  if (!node || !node.value->is_object()) return;
  Fields fields(node, in_quotes(action), faults);
  for (const Argument& argument : arguments_of(action)) {
    const Node value = argument.required ? fields.require(argument.name) : fields.get(argument.name);
    if (value && !is_open(value)) check_type(value, argument, faults);
  }
  if (action != "artifact") return;
  const auto contents = std::ranges::count_if(std::initializer_list<const char*>{"text", "file", "blob"},
                                              [&](const char* name) { return fields.has(name); });
  if (contents != 1) faults.add(node, "an artifact is made of one thing: give it text, file or blob");
}

}  // namespace sandglass::activities::agent::taskfile
