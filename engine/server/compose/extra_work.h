// A seam for test programs: workflows and activities beside the product's own. Nothing in the product sets
// it.
#pragma once

#include "engine/base/ports.h"
#include "engine/core/ports/activity.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::server::compose {

using RegisterExtra = void (*)(workflow::Registry&, core::ActivityRegistry&, base::TaskRunner&);

/// Set before main() by a program that has some; null: none.
inline RegisterExtra extra_work = nullptr;

}  // namespace sandglass::engine::server::compose
