// Reads the `plan` part of a task. Not for others.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "activities/agent/taskfile/document.h"
#include "activities/agent/taskfile/task.h"

namespace sandglass::activities::agent::taskfile {

/// Where a plan was read. A run's input is read again whenever its history is replayed: what was accepted
/// once stays accepted.
enum class Source : std::uint8_t { task_file, run_input };

/// Reads actions, checks that names are unique and that every "${name…}" names an action before it or a
/// parameter.
class PlanParser {
 public:
  PlanParser(Faults& faults, std::set<std::string> parameters, Source source)
      : faults_(faults), parameters_(std::move(parameters)), source_(source) {}

  std::vector<PlanAction> actions(const std::vector<Node>& nodes);

 private:
  PlanAction action(const Node& node);
  void kind_of_action(Fields& fields, PlanAction& action);
  void tool(Fields& fields, const std::string& tool, PlanAction& action);
  void choose(const Node& node, PlanAction& action);
  void finish(const Node& node, PlanAction& action);
  Condition condition(const Node& node);
  Condition comparison(Fields& fields);
  std::vector<Condition> conditions(const Node& node);
  std::vector<Extract> extracts(const Node& node);
  std::string arguments(const Node& node, std::string_view action);
  void check_variables(const Node& node);
  void check_text(const Node& node, const std::string& text);

  Faults& faults_;
  std::set<std::string> parameters_;
  const Source source_;
  std::set<std::string> names_;  // of the actions before the one that is read
};

/// Names of actions and parameters: a letter, then letters, digits, '_' and '-', at most 64.
bool is_plain_name(std::string_view name);

}  // namespace sandglass::activities::agent::taskfile
