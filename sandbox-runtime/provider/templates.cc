#include "sandbox-runtime/provider/templates.h"

namespace sandglass::sandbox_runtime::provider {

std::map<std::string, Template> built_in_templates() {
  Template standard{.name = "default"};
  Template rootless{.name = "default-rootless"};
  for (const LimitKind kind : {LimitKind::memory, LimitKind::cpu}) {
    rootless.limits.of(kind).need = Need::best_effort;
  }
  std::map<std::string, Template> templates;
  for (const Template& offline : {standard, rootless}) {
    Template online = offline;
    online.name = offline.name == "default" ? "network" : "network-rootless";
    online.network = true;
    templates[offline.name] = offline;
    templates[online.name] = online;
  }
  return templates;
}

}  // namespace sandglass::sandbox_runtime::provider
