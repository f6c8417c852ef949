#include "engine/api/rpc_status.h"

#include <string>

#include "schemas/sandglass/v1/error.pb.h"

namespace sandglass::engine::api {
namespace {

using base::Code;

grpc::StatusCode status_code(Code code) {
  switch (code) {
    case Code::unauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Code::permission_denied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Code::not_found:
    case Code::artifact_missing:
    case Code::workflow_unknown:
    case Code::query_unknown:
    case Code::update_unknown:
      return grpc::StatusCode::NOT_FOUND;
    case Code::already_exists:
    case Code::run_exists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::invalid_argument:
    case Code::payload_invalid:
    case Code::record_too_large:
    case Code::path_refused:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::unavailable:
    case Code::outcome_unknown:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::overloaded:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::cancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::internal:
      return grpc::StatusCode::INTERNAL;
    default:
      return grpc::StatusCode::FAILED_PRECONDITION;
  }
}

}  // namespace

grpc::Status to_status(const base::Error& error) {
  ::sandglass::v1::Error details;
  details.set_code(static_cast<std::uint32_t>(error.code));
  details.set_name(std::string(base::name_of(error.code)));
  details.set_message(error.message);
  return {status_code(error.code), error.message, details.SerializeAsString()};
}

std::optional<std::string_view> authorization_of(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

}  // namespace sandglass::engine::api
