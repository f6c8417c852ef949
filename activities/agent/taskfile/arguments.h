// What the arguments of each action of a plan look like, so that a slip of the pen is told with its line
// before anything starts, not by the tool after an hour's work. The tools' own schemas decide at run time; a
// test keeps the two alike. Not for others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "activities/agent/taskfile/document.h"

namespace sandglass::activities::agent::taskfile {

enum class ArgumentType : std::uint8_t { text, texts, flag, count, texts_by_name, mapping, any };

struct Argument {
  std::string_view name;
  ArgumentType type = ArgumentType::text;
  bool required = false;
};

/// Empty: the action has no arguments of this kind (choose, finish).
const std::vector<Argument>& arguments_of(std::string_view action);

/// Reports unknown, missing and wrongly typed arguments. A text with "${" in it may become anything.
void check_arguments(const Node& node, std::string_view action, Faults& faults);

}  // namespace sandglass::activities::agent::taskfile
