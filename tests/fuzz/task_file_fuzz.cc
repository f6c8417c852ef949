// Task files, and the run inputs that are made of them. Oracle: the input made of an accepted task is
// accepted with the same checks and gives the same plan.
#include <string>
#include <vector>

#include "activities/agent/plan_values.h"
#include "activities/agent/taskfile/taskfile.h"
#include "engine/base/check.h"
#include "engine/codec/json.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::activities::agent;

void follow(const PlanValues& values, const std::vector<taskfile::PlanAction>& plan) {
  for (const taskfile::PlanAction& action : plan) {
    if (!action.arguments.empty()) (void)values.fill(action.arguments);
  }
}

}  // namespace

FUZZ_TARGET(task_file) {
  const auto task = taskfile::parse_task_yaml(input, "task.yaml");
  if (!task) {
    SG_CHECK(!task.error().message.empty(), "refused without a word");
    (void)taskfile::parse_run_input(input);
    return;
  }
  SG_CHECK(sandglass::engine::codec::check_json(task->json, {.max_bytes = 64 << 20, .max_values = 10'000'000})
               .has_value(),
           "an accepted task is no JSON");
  const std::vector<std::string> trees(task->task.inputs.size(), std::string(64, 'a'));
  const auto made = taskfile::make_run_input(*task, trees);
  if (!made) return;  // a parameter without a value
  const auto read = taskfile::parse_run_input(*made);
  SG_CHECK(read.has_value(), read.error().message);
  SG_CHECK(read->task.plan.size() == task->task.plan.size() && read->trees == trees, "another plan came out");
  follow(PlanValues(read->task.parameters), read->task.plan);
}
