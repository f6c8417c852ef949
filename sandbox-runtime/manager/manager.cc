#include "sandbox-runtime/manager/manager.h"

#include "sandbox-runtime/manager/parts.h"

namespace sandglass::sandbox_runtime::manager {

void register_sandbox_activities(core::ActivityRegistry& registry,
                                 const std::shared_ptr<const ManagerParts>& parts) {
  register_pool_activities(registry, parts);
  register_network_activity(registry, parts);
  register_exec_activity(registry, parts);
  register_tree_activities(registry, parts);
  register_diff_activity(registry, parts);
}

}  // namespace sandglass::sandbox_runtime::manager
