// What a process of the server does to itself before it starts work (V2). `confine` has the order; the steps
// stand alone for tests. Call from the main thread, before other threads start.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/private_root.h"
#include "engine/base/result.h"

namespace sandglass::engine::base {

struct ConfineRequest {
  uid_t uid = 0;  // that it has already: it stays as it is, in the root that it is in
  gid_t gid = 0;
  pid_t parent = 0;  // getppid() at the start of main
  PrivateRoot root;
  /// Landlock: no file can be opened any more except below root.readable. Else files are left to uid and
  /// root.
  bool landlock = true;
};

struct Confinement {
  bool own_uid = false;
  bool private_root = false;  // false with a uid of its own: this machine does not let us mount
  bool landlock = false;
  std::string folder;  // by which path root.folder is reached now
};

/// Private root, uid, bond to the parent, no new privileges, Landlock. Errors: io_error; cancelled, when the
/// parent has ended.
Result<Confinement> confine(const ConfineRequest& request);

/// Takes uid and gid for good, without supplementary groups and with no capability in any set. No-op if both
/// are the process's own already.
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
