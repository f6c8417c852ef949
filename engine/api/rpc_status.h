// Errors as gRPC statuses, and the caller's credentials as gRPC has them. Included by the files with gRPC
// alone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::api {

/// Its details are a sandglass.v1.Error.
grpc::Status to_status(const base::Error& error);

std::optional<std::string_view> authorization_of(const grpc::CallbackServerContext& context);

}  // namespace sandglass::engine::api
