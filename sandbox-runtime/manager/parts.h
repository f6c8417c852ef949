// The groups of activities that register_sandbox_activities() puts together. Not for others.
#pragma once

#include <memory>

#include "sandbox-runtime/manager/manager.h"

namespace sandglass::sandbox_runtime::manager {

using Parts = std::shared_ptr<const ManagerParts>;

void register_pool_activities(core::ActivityRegistry& registry, const Parts& parts);
void register_network_activity(core::ActivityRegistry& registry, const Parts& parts);
void register_exec_activity(core::ActivityRegistry& registry, const Parts& parts);
void register_tree_activities(core::ActivityRegistry& registry, const Parts& parts);
void register_diff_activity(core::ActivityRegistry& registry, const Parts& parts);

}  // namespace sandglass::sandbox_runtime::manager
