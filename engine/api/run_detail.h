// One run in full, from its state and the records of its history: what is open, what is done, and how often
// it was tried.
#pragma once

#include <map>
#include <string>

#include "engine/base/result.h"
#include "engine/fold/stream_fold.h"
#include "engine/journal/reader.h"
#include "engine/run/state.h"
#include "schemas/sandglass/v1/run.pb.h"

namespace sandglass::engine::api {

/// A history longer than this is shown from its newest records only.
inline constexpr std::uint64_t kDetailRecords = 5000;

/// Blocking. `state` is the run at record `head`, which is durable.
base::Result<::sandglass::v1::RunDetail> read_detail(const journal::Reader& reader, const fold::AnyKind& kind,
                                                     const core::StreamId& stream, const run::State& state,
                                                     std::uint64_t head);

/// Blocking: the payload that a reference of this stream names. Null slot: the reference is empty.
base::Result<core::SlotPtr> read_payload(const journal::Reader& reader, const core::StreamId& stream,
                                         const core::PayloadRef& ref);

}  // namespace sandglass::engine::api
