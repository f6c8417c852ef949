// The base of a sandbox without an image (V6): the machine's /usr, read-only, a generated /etc, and
// emptiness. What of the machine is visible inside is one table in machine_base.cc; nothing else is. Thread
// rule: any thread.
#pragma once

#include <string>
#include <vector>

#include "sandbox-runtime/provider/linux/plan.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// Folders and files below /usr that carry somebody's configuration and are covered. Walks /usr once: call it
/// once per process and keep the answer.
std::vector<BaseEntry> hidden_in_usr();

/// Folders, files and links of the new root but for /etc (of which only the folder), parents first. Same for
/// all sandboxes of a template.
std::vector<BaseEntry> machine_base(const Template& tmpl);
/// The same for two templates only if machine_base is.
std::string machine_base_key(const Template& tmpl);

/// The generated /etc, below the folder "etc" that machine_base makes; the same for all sandboxes of this
/// machine.
std::vector<BaseEntry> machine_etc();
/// The same as a read-only file system of its own, to be cloned for each sandbox: none where the kernel
/// cannot clone detached mounts (before 6.15) or we are not root.
engine::base::UniqueFd shared_etc(const std::vector<BaseEntry>& etc);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
