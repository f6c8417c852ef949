// Registers workflow "agent". Its input is what taskfile::make_run_input() makes; its result is
// {"message", "finished_by", "artifacts": [metadata…]}.
#pragma once

#include <memory>

#include "activities/gateway/gateway.h"
#include "engine/workflow/registry.h"

namespace sandglass::activities::agent {

void register_agent(engine::workflow::Registry& registry, std::shared_ptr<const gateway::Gateway> gateway);

}  // namespace sandglass::activities::agent
