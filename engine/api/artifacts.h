// Artifacts of a run: results of its "artifact.store" steps, read off its history; the bytes are blobs of its
// tenant.
#pragma once

#include <memory>
#include <vector>

#include "engine/api/backend.h"
#include "engine/api/methods.h"
#include "engine/api/run_access.h"

namespace sandglass::engine::api {

/// Blocking: in the order in which they were stored; a name that was stored again is listed with each.
base::Result<std::vector<v1::ArtifactView>> read_artifacts(const journal::Reader& reader,
                                                           const fold::AnyKind& kind,
                                                           const core::StreamId& stream, std::uint64_t head);

/// The newest artifact of that name or id (artifact_missing), then its bytes.
std::shared_ptr<Stream<v1::ContentPart>> artifact_stream(const Backend& backend, const Caller& caller,
                                                         const v1::GetArtifactRequest& request);

}  // namespace sandglass::engine::api
