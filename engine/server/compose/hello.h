// The example workflow "hello": a greeting a step, with a pause between steps if asked for. Small on purpose:
// it is what a first `sandglass start` runs, and what durability is tried on.
#pragma once

#include "engine/base/ports.h"
#include "engine/core/ports/activity.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::server::compose {

/// Workflow "hello": input {"name": text, "count": 1 to 10,000, "pause_ms": 0 …}; result {"greetings":
/// [text…]}, of which at most the last 100 are given. With "activity" the steps are that activity's, so that
/// workers can be tried on it; "policy" says how ({"max_attempts", "initial_interval_ms",
/// "start_to_close_ms", "schedule_to_start_ms", "schedule_to_close_ms", "heartbeat_ms", "queue", "priority",
/// "non_retryable"}), "ms" is passed on. "attributes": {…} is what the run is found by. With "rounds": 1 to
/// 1,000 it goes on as a new run after each round of greetings; with "each": [name…] every name is greeted by
/// a child run. Query "progress": {"greeted", "count"}. Update "greet": a name, to be greeted as well; its
/// answer is the greeting. Its activity is "hello.greet". Both outlive what is registered.
void register_hello(workflow::Registry& workflows, core::ActivityRegistry& activities,
                    base::TaskRunner& runner);

}  // namespace sandglass::engine::server::compose
