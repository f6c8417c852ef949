#include "sandbox-runtime/manager/templates.h"

namespace sandglass::sandbox_runtime::manager {

std::map<std::string, provider::Template> built_in_templates() {
  provider::Template standard{.name = "default"};
  provider::Template rootless{.name = "default-rootless"};
  for (const provider::LimitKind kind : {provider::LimitKind::memory, provider::LimitKind::cpu}) {
    rootless.limits.of(kind).need = provider::Need::best_effort;
  }
  std::map<std::string, provider::Template> templates;
  for (const provider::Template& offline : {standard, rootless}) {
    provider::Template online = offline;
    online.name = offline.name == "default" ? "network" : "network-rootless";
    online.network = true;
    templates[offline.name] = offline;
    templates[online.name] = online;
  }
  return templates;
}

}  // namespace sandglass::sandbox_runtime::manager
