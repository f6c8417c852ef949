#include "engine/workflow/registry.h"

#include "engine/base/check.h"

namespace sandglass::engine::workflow {

void Registry::add(Workflow workflow) {
  SG_CHECK(!workflow.name.empty() && workflow.start, "a workflow needs a name and a function");
  latest_[workflow.name] = workflow.version;
  std::pair key{workflow.name, workflow.version};
  const bool fresh = workflows_.emplace(std::move(key), std::move(workflow)).second;
  SG_CHECK(fresh, "a workflow is registered twice under one name and version");
}

const Workflow* Registry::find(std::string_view name, std::string_view version) const {
  const auto found =
      workflows_.find({std::string(name), version.empty() ? latest(name) : std::string(version)});
  return found == workflows_.end() ? nullptr : &found->second;
}

std::string Registry::latest(std::string_view name) const {
  const auto found = latest_.find(name);
  return found == latest_.end() ? std::string() : found->second;
}

std::vector<std::pair<std::string, std::string>> Registry::list() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [key, workflow] : workflows_) names.push_back(key);
  return names;
}

}  // namespace sandglass::engine::workflow
