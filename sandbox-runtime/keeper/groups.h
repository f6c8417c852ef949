// Control groups of a sandbox whose host has not come back: the keeper ends the sandbox, so it also removes
// what the kernel leaves of it. The folders are known from the descriptors of the launch, not from any text.
#pragma once

#include <string>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::keeper {

/// `entries`: files that init entered its groups by; `leaf`: its folder in the unified tree, or invalid.
/// Folders of groups that are not ours by name are left out.
std::vector<std::string> group_folders(const std::vector<engine::base::UniqueFd>& entries,
                                       const engine::base::UniqueFd& leaf);

/// Removes the folders with those directly below. Waits a little where an ended process is still counted;
/// what stays is swept by the next host.
void remove_groups(const std::vector<std::string>& folders);

}  // namespace sandglass::sandbox_runtime::keeper
