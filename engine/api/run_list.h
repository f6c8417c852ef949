// Lists runs, newest first, page by page, from the visibility rows of all partitions; no history is read
// (E10).
#pragma once

#include <functional>
#include <optional>

#include "engine/base/result.h"
#include "engine/core/stream_id.h"
#include "engine/identity/identity.h"
#include "engine/view/view.h"
#include "schemas/sandglass/v1/run.pb.h"

namespace sandglass::engine::api {

/// Why a stream is parked as damaged, if it is. May be null.
using DamageOf = std::function<std::optional<base::Error>(const core::StreamId&)>;

/// Blocking. A page token stays valid while runs come and go: it names the last run that was given. A damaged
/// run is shown as stuck with the code stream_damaged. invalid_argument: a filter that cannot be read, with
/// the column.
base::Result<::sandglass::v1::ListRunsReply> list_runs(const view::View& view, std::uint16_t partitions,
                                                       const identity::Caller& caller,
                                                       const ::sandglass::v1::ListRunsRequest& request,
                                                       const DamageOf& damage_of = nullptr);

/// Blocking. How many of the runs that the caller may see the filter chooses, in parts.
base::Result<::sandglass::v1::CountRunsReply> count_runs(const view::View& view, std::uint16_t partitions,
                                                         const identity::Caller& caller,
                                                         const ::sandglass::v1::CountRunsRequest& request,
                                                         const DamageOf& damage_of = nullptr);

/// Blocking: what the list knows of one run, found by going over its partition's rows; for runs whose records
/// cannot be read. not_found: there is none that the caller may see.
base::Result<::sandglass::v1::RunSummary> find_listed(const view::View& view, std::uint16_t partitions,
                                                      const identity::Caller& caller,
                                                      const core::StreamId& stream);

/// Blocking. Sets the number of records of each run in the page, and its search attributes; one whose newest
/// record is damaged is shown as stuck, too.
base::Status fill_heads(const view::View& view, ::sandglass::v1::ListRunsReply& page);

}  // namespace sandglass::engine::api
