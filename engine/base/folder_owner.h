// Gives a data folder to the uid of its engine (V2), also one that an earlier start made as root.
#pragma once

#include <sys/types.h>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"

namespace sandglass::engine::base {

/// What of the data folder an engine with a uid of its own can write.
inline constexpr const char* kEngineParts[] = {"journal", "blobs", "run", "tokens", "lock"};

/// Call while nobody works on the folder. The engine's parts, the keys, and at last the folder itself get the
/// uid; the rest stays as it is. Killed midway it is completed by the next call. Follows no symbolic link,
/// and gives away no file that has a second name. With the process's own uid it only moves what earlier
/// versions kept at other places. Errors: io_error, which names the path and what to do.
Status give_folder(const DataFolder& folder, uid_t uid, gid_t gid);

}  // namespace sandglass::engine::base
