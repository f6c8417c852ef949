// What a program that parses hostile bytes does to itself before it starts (V2). Each call is one step; the
// order is uid, parent, files. Call from the main thread, before other threads start.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::engine::base {

/// Takes uid and gid for good, without supplementary groups. No-op if both are the process's own already.
Status drop_to(uid_t uid, gid_t gid);

/// SIGKILL when the thread that started this process ends. Call after the last change of uid, which clears
/// it. `parent` is getppid() at the start of main; fails (cancelled) if that one has gone meanwhile.
Status die_with(pid_t parent);

/// No new privileges; and by Landlock no file can be opened any more except below `readable`, for reading.
/// True: it is in force; false: this kernel has no Landlock, so that only the uid separates.
Result<bool> confine_files(const std::vector<std::string>& readable);

/// The soft limit of open files becomes the hard one; no core files, which could hold what passed through; at
/// most so much memory, stacks included: whoever makes this process grow ends it, and nothing else.
void set_process_limits(std::size_t max_memory_bytes);

}  // namespace sandglass::engine::base
