// What this machine can enforce, found by looking and doing (V10, V18). Thread rule: any thread; slow.
#pragma once

#include <vector>

#include "sandbox-runtime/provider/linux/cgroups.h"
#include "sandbox-runtime/provider/linux/loop_disk.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

std::vector<LimitSupport> find_support(bool rootless, const Cgroups& groups, DiskImages& disks);

/// Protections beside the limits, for `doctor`.
std::vector<Feature> find_protections(bool rootless, const Cgroups& groups);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
