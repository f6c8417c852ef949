// Takes an uploaded tree: each file becomes a blob, the tree a manifest blob (codec/tree.h).
#pragma once

#include <memory>

#include "engine/api/backend.h"
#include "engine/api/methods.h"

namespace sandglass::engine::api {

/// Refused: paths that leave the root (path_refused), bytes that do not fit their entry (invalid_argument),
/// more than the limits allow (invalid_argument). Nothing of a refused upload can be named by a run.
std::shared_ptr<UploadSink> upload_sink(const Backend& backend, const Caller& caller);

}  // namespace sandglass::engine::api
