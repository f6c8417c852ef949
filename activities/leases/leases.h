// Claiming and giving back a sandbox from workflow code. The run decider renews a held lease and gives it
// back when the run ends, whatever the workflow does; this only makes asking easy.
#pragma once

#include <cstdint>
#include <string>

#include "engine/workflow/context.h"

namespace sandglass::activities::leases {

namespace base = engine::base;
namespace core = engine::core;
namespace workflow = engine::workflow;

struct ClaimOptions {
  std::string template_name = "default";
  std::int64_t queue_ms = 30'000;  // how long to wait in the queue
};

/// The right to use one sandbox. `path` names it for release_lease() and lease_ended().
struct Lease {
  std::string path;
  std::string sandbox;
  std::uint64_t token = 0;  // the host refuses an older one
  std::string provider;
  std::string unenforced;  // best-effort limits that this machine cannot enforce
};

/// Errors: what admission or pool say (queue_timeout, quota_exceeded, limit_unenforceable …), cancelled.
workflow::Task<base::Result<Lease>> claim(workflow::Context& ctx, std::string name, ClaimOptions options);

}  // namespace sandglass::activities::leases
