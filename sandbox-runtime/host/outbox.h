// Where the parts of the host send what the engine is to hear.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "schemas/sandglass/frame/v1/host.pb.h"

namespace sandglass::sandbox_runtime::host {

/// A call of the engine, on the connection that it came by.
struct CallRef {
  std::uint64_t connection = 0;  // 0: none
  std::uint64_t call = 0;

  explicit operator bool() const { return connection != 0; }
  friend auto operator<=>(const CallRef&, const CallRef&) = default;
};

class Outbox {
 public:
  virtual ~Outbox() = default;
  /// Dropped when that connection has gone. The call's number is filled in.
  virtual void send(CallRef call, frame::v1::HostMessage message) = 0;
  /// To whoever is connected.
  virtual void announce(frame::v1::HostMessage message) = 0;

  void failed(CallRef call, const engine::base::Error& error) {
    if (!call) return;
    frame::v1::HostMessage message;
    message.mutable_failed()->set_code(static_cast<std::uint32_t>(error.code));
    message.mutable_failed()->set_message(error.message);
    send(call, std::move(message));
  }
  void done(CallRef call) {
    if (!call) return;
    frame::v1::HostMessage message;
    message.mutable_done();
    send(call, std::move(message));
  }
};

}  // namespace sandglass::sandbox_runtime::host
