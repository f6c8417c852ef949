// Between the host's messages and the launcher's words.
#pragma once

#include "engine/base/result.h"
#include "sandbox-runtime/provider/launcher.h"
#include "schemas/sandglass/frame/v1/host.pb.h"

namespace sandglass::sandbox_runtime::host {

engine::base::Result<provider::SandboxSpec> spec_of(const frame::v1::HostCreate& create);
void add_support(const std::vector<provider::LimitSupport>& support, frame::v1::HostCreated& created);
void add_hit(const provider::LimitHit& hit, frame::v1::HostExecDone& done);

/// What one exec gets: as asked, at most what the template leaves to it. The sandbox's own process and its
/// temporary files keep a share (V9).
provider::ExecLimits exec_limits(const frame::v1::HostExecLimits& asked, const provider::Limits& limits);

}  // namespace sandglass::sandbox_runtime::host
