// What a schedule asks of the zones (decider.h): which moments have come.
// Thread rule: pure functions but for reading the zones' files; any thread.
#pragma once

#include <map>
#include <string>

#include "engine/core/ports/activity.h"

namespace sandglass::engine::schedule::zones {

/// "schedule.plan". `versions`: of each workflow that runs here, the one that new runs get.
core::ActivityResult answer_plan(const core::ActivityCall& call,
                                 const std::map<std::string, std::string>& versions);

}  // namespace sandglass::engine::schedule::zones
