// Runs a program of the machine to its end. Thread rule: any thread.
#pragma once

#include <string>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// argv[0] is looked up in the system folders; standard input is empty. provider_failed with the last output
/// if the program is missing, fails or takes over a minute.
engine::base::Status run_tool(const std::vector<std::string>& argv);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
