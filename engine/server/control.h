// The channel between supervisor and engine: short text messages on a SOCK_SEQPACKET pair, one descriptor may
// ride on each.
//   engine → supervisor: "ready" | "standby" (another engine serves) | "busy" | "idle" (nothing is open and
//                        nobody is connected) | "error CODE MESSAGE"
//   supervisor → engine: "effect" + the socket of a new sandglass-effect
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::server {

struct ControlMessage {
  std::string text;
  base::UniqueFd fd;
};

/// Thread rule: send from any thread (a message is one packet); receive from one.
class ControlChannel {
 public:
  ControlChannel() = default;
  explicit ControlChannel(base::UniqueFd fd) : fd_(std::move(fd)) {}

  /// Two connected ends, both close-on-exec.
  static base::Result<std::pair<base::UniqueFd, base::UniqueFd>> make_pair();

  base::Status send(std::string_view text, int fd = -1);
  /// The next message without waiting; nothing if there is none. unavailable: the other end has closed.
  base::Result<std::optional<ControlMessage>> receive();
  int fd() const { return fd_.get(); }

 private:
  base::UniqueFd fd_;
};

}  // namespace sandglass::engine::server
