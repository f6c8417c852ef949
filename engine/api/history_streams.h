// Streams of records: following a run as it goes on, reading a stream's history, reading a partition in its
// order. Each holds one page in memory.
#pragma once

#include <memory>

#include "engine/api/backend.h"
#include "engine/api/methods.h"

namespace sandglass::engine::api {

/// Ends after the record that closes the run.
std::shared_ptr<Stream<v1::RunUpdate>> follow_stream(const Backend& backend, const Caller& caller,
                                                     const v1::FollowRunRequest& request);
std::shared_ptr<Stream<v1::HistoryRecord>> history_stream(const Backend& backend, const Caller& caller,
                                                          const v1::ReadHistoryRequest& request);
std::shared_ptr<Stream<v1::HistoryRecord>> order_stream(const Backend& backend, const Caller& caller,
                                                        const v1::ReadOrderRequest& request);
/// Its first message comes when the checkpoint is whole; it does not end by itself.
std::shared_ptr<Stream<v1::Checkpoint>> checkpoint_stream(const Backend& backend);

}  // namespace sandglass::engine::api
