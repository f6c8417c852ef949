// The child's way from a fresh clone to sandglass-init: one function shows the whole order (V3).
#pragma once

#include <vector>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/plan.h"
#include "sandbox-runtime/provider/linux/stage.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// Descriptors that the child has from the keeper. Borrowed; -1 where absent.
struct JailFds {
  int init = -1;            // the program, a sealed memfd
  int control = -1;         // becomes fd 3
  int barrier = -1;         // becomes fd 4
  int gate = -1;            // root: SOCK_SEQPACKET by which comes what the host makes meanwhile: the filled
                            // disk, a detached mount; then the net namespace, with its listener if wanted
  int base = -1;            // the root so far, a detached mount; without it the plan has all that it takes
  int etc = -1;             // a detached mount, without `base`; without it the plan has the files
  int keeper = -1;          // the keeper's pidfd
  int talk = -1;            // SOCK_SEQPACKET to the keeper, see below
  std::vector<int> groups;  // cgroup.procs of v1 groups
};

/// What child and keeper say on `talk`: the child sends packets; the keeper answers need_maps with one byte.
/// End of file without a failure means that init was executed.
enum class TalkKind : std::uint32_t { need_maps = 1, listener = 2, failed = 3 };
struct Talk {
  TalkKind kind = TalkKind::failed;
  Stage stage = Stage::none;
  std::int32_t error = 0;
};

/// Does not return: becomes init, or reports the failed stage and exits.
[[noreturn]] void become_init(const PlanView& plan, const JailFds& fds);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
