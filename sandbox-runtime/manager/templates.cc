#include "sandbox-runtime/manager/templates.h"

namespace sandglass::sandbox_runtime::manager {

std::map<std::string, provider::Template> built_in_templates() {
  provider::Template standard{.name = "default"};
  provider::Template rootless{.name = "default-rootless"};
  for (const provider::LimitKind kind : {provider::LimitKind::memory, provider::LimitKind::cpu}) {
    rootless.limits.of(kind).need = provider::Need::best_effort;
  }
  return {{standard.name, standard}, {rootless.name, rootless}};
}

}  // namespace sandglass::sandbox_runtime::manager
