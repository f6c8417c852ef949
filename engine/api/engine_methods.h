// The methods of the API on a running engine: parse → check → command or read → reply. No decisions are made
// here.
#pragma once

#include <memory>

#include "engine/api/backend.h"
#include "engine/api/methods.h"

namespace sandglass::engine::api {

/// The backend outlives it.
std::unique_ptr<Methods> engine_methods(const Backend& backend);

}  // namespace sandglass::engine::api
