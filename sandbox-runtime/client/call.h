// One call on its way: what is asked, what comes back, whether it can be asked again. The client's thread
// only.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engine/base/result.h"
#include "sandbox-runtime/provider/provider.h"
#include "schemas/sandglass/frame/v1/host.pb.h"

namespace sandglass::sandbox_runtime::client {

/// Sends a message of a call that has a stream.
using Send = std::function<void(frame::v1::HostRequest)>;

class Call {
 public:
  virtual ~Call() = default;
  /// What opens it, also after the connection was lost.
  virtual frame::v1::HostRequest request() = 0;
  /// Takes a message that is not `failed`. True: it was the last one, and the answer was given.
  virtual bool on(const frame::v1::HostMessage& message, const Send& send) = 0;
  /// Gives the answer.
  virtual void fail(engine::base::Error error) = 0;
  /// Whether it may be asked again; false: it fails with the connection.
  virtual bool repeatable() const { return true; }
  /// After it was opened: sends what may be sent. True: it failed here and was answered.
  virtual bool opened(const Send& send) {
    (void)send;
    return false;
  }
};

/// A call that is answered by one message. `convert` gives none when it is a message of the wrong kind.
template <class T>
class PlainCall final : public Call {
 public:
  using Convert =
      std::move_only_function<std::optional<engine::base::Result<T>>(const frame::v1::HostMessage&)>;
  PlainCall(frame::v1::HostRequest request, provider::Answer<T> answer, Convert convert)
      : request_(std::move(request)), answer_(std::move(answer)), convert_(std::move(convert)) {}

  frame::v1::HostRequest request() override { return request_; }
  bool on(const frame::v1::HostMessage& message, const Send&) override {
    auto result = convert_(message);
    if (!result) return false;
    answer_(std::move(*result));
    return true;
  }
  void fail(engine::base::Error error) override { answer_(std::unexpected(std::move(error))); }

 private:
  frame::v1::HostRequest request_;
  provider::Answer<T> answer_;
  Convert convert_;
};

std::unique_ptr<Call> exec_call(provider::SandboxRef sandbox, provider::ExecRequest request,
                                provider::OutputCallback on_output,
                                provider::Answer<provider::ExecResult> answer);
std::unique_ptr<Call> put_call(provider::SandboxRef sandbox, std::string path,
                               std::shared_ptr<provider::TreeSource> source,
                               provider::Answer<provider::TreeResult> answer);
/// `sink` none: digests without content.
std::unique_ptr<Call> get_call(provider::SandboxRef sandbox, std::string path,
                               std::shared_ptr<provider::TreeSink> sink,
                               provider::Answer<provider::TreeResult> answer);

}  // namespace sandglass::sandbox_runtime::client
