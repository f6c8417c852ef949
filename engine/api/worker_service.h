// The gRPC face of the worker pool: one long call a worker. What the pool says while a message is being
// written goes out together as the next one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/api/gate.h"
#include "engine/dispatch/worker_pool.h"

namespace grpc {
class Service;
}

namespace sandglass::engine::api {

/// Denied callers are told to `denied`. Gate and pool outlive it.
std::unique_ptr<grpc::Service> worker_service(
    Gate& gate, dispatch::WorkerPool& pool,
    std::function<void(const identity::Caller&, const base::Error&)> denied);

}  // namespace sandglass::engine::api
