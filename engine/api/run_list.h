// Lists runs, newest first, page by page, from the visibility rows of all partitions; no history is read
// (E10).
#pragma once

#include "engine/base/result.h"
#include "engine/identity/identity.h"
#include "engine/view/view.h"
#include "schemas/sandglass/v1/run.pb.h"

namespace sandglass::engine::api {

/// Blocking. A page token stays valid while runs come and go: it names the last run that was given.
base::Result<::sandglass::v1::ListRunsReply> list_runs(const view::View& view, std::uint16_t partitions,
                                                       const identity::Caller& caller,
                                                       const ::sandglass::v1::ListRunsRequest& request);

}  // namespace sandglass::engine::api
