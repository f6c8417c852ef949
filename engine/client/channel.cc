#include "engine/client/channel.h"

#include <fcntl.h>

#include <string>

#include "schemas/sandglass/v1/error.pb.h"

namespace sandglass::engine::client {
namespace {

using base::Code;

constexpr int kMaxMessageBytes = 64 << 20;
constexpr std::size_t kMaxSocketPath = 100;

/// A socket path longer than sun_path is reached through a descriptor of its folder.
std::string socket_target(const std::string& path, base::UniqueFd& folder) {
  if (path.size() <= kMaxSocketPath) return "unix:" + path;
  const auto slash = path.rfind('/');
  folder.reset(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return "unix:/proc/self/fd/" + std::to_string(folder.get()) + path.substr(slash);
}

}  // namespace

base::Error to_error(const grpc::Status& status) {
  api::Error details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    return {static_cast<Code>(details.code()), details.message()};
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return {Code::engine_unreachable, "no engine answers: " + status.error_message()};
    case grpc::StatusCode::UNAUTHENTICATED:
      return {Code::unauthenticated, status.error_message()};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {Code::timed_out, "the engine did not answer in time"};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {Code::overloaded, status.error_message()};
    case grpc::StatusCode::CANCELLED:  // not by us: the engine has ended meanwhile
      return {Code::outcome_unknown,
              "the engine ended before it had answered; retry with the same request id"};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {Code::invalid_argument, "the engine does not know this call; it is of another version"};
    default:
      return {Code::internal, status.error_message()};
  }
}

std::shared_ptr<grpc::Channel> open_channel(const ConnectOptions& options, base::UniqueFd& folder) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // how long one attempt may take
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  const std::string scheme = options.address.starts_with('[') ? "ipv6:" : "ipv4:";
  const std::string target =
      options.address.empty() ? socket_target(options.socket, folder) : scheme + options.address;
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace sandglass::engine::client
