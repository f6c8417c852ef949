// What the child gives up before it becomes init: limits, identity, capabilities, its life beyond the
// keeper's. Called in the child, in the order of jail.cc. 0 or errno.
#pragma once

#include "sandbox-runtime/provider/linux/plan.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// Root: inside-uid 0 without groups. Rootless: uid 1000 already; nothing to change.
int take_identity(const PlanView& plan);
int set_rlimits(const PlanView& plan);
/// Root: keeps SETUID, SETGID, SETPCAP and KILL, in the bounding set too. Rootless: keeps none.
int drop_capabilities(const PlanView& plan);
/// SIGKILL when the keeper ends; EOWNERDEAD if it has ended already. After the last change of identity (V1).
int die_with_keeper(int keeper_pidfd);
/// Write access below /workspace, /home/sandbox, /tmp, /dev and /proc alone; no signals or abstract sockets
/// out of the jail. 0 also where the kernel has no Landlock: `doctor` shows it.
int restrict_by_landlock();
/// 0: the kernel has none.
int landlock_version();

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
