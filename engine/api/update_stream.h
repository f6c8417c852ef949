// An update of a run and its answer.
#pragma once

#include <memory>

#include "engine/api/backend.h"
#include "engine/api/methods.h"

namespace sandglass::engine::api {

/// Submits the update, tells that it is accepted, waits for its answer and ends. The same request id again
/// gets the same. invalid_argument at once for a request that is no update.
StreamPtr<v1::UpdateProgress> update_stream(const Backend& backend, const Caller& caller,
                                            const v1::UpdateRunRequest& request);

}  // namespace sandglass::engine::api
