// What was made, renamed or removed in a folder is on the disk. Thread rule: any thread. Errors: io_error,
// disk_full.
#pragma once

#include <string>

#include "engine/base/result.h"

namespace sandglass::engine::base {

Status sync_folder(const std::string& path);

}  // namespace sandglass::engine::base
