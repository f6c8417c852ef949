// Reads task files. Thread rule: pure functions. Errors: task_invalid; the message has one line a fault,
// "file:line:column: what is wrong; what to do".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "activities/agent/taskfile/task.h"
#include "engine/base/result.h"

namespace sandglass::activities::agent::taskfile {

namespace base = engine::base;

struct TaskFile {
  Task task;
  std::string json;  // the same document as JSON: what a run's input holds
};

/// `file` is named in messages. `parameters` are the caller's own values for what the task declares; an
/// input's path may be made of them ("${param.name}").
base::Result<TaskFile> parse_task_yaml(std::string_view text, std::string_view file,
                                       const std::map<std::string, std::string>& parameters = {});

/// The input of a run of workflow "agent". `trees` names, for each of the task's inputs in order, the
/// uploaded tree (64 hex digits). Parameters must be declared in the task (task_invalid otherwise).
base::Result<std::string> make_run_input(const TaskFile& file, const std::vector<std::string>& trees,
                                         const std::map<std::string, std::string>& parameters = {});

struct RunInput {
  Task task;  // parameters are the run's own
  std::vector<std::string> trees;
};
/// Reads what make_run_input wrote, with the same checks.
base::Result<RunInput> parse_run_input(std::string_view json);

}  // namespace sandglass::activities::agent::taskfile
