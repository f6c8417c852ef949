// Channels to an engine and its errors, for the files of this folder that have gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/client/client.h"

namespace sandglass::engine::client {

/// What the engine said, or what stands in the way of it.
base::Error to_error(const grpc::Status& status);

/// `folder` holds what a long socket path needs for as long as the channel lives.
std::shared_ptr<grpc::Channel> open_channel(const ConnectOptions& options, base::UniqueFd& folder);

}  // namespace sandglass::engine::client
