// How API methods answer, without any RPC framework: one answer, or a stream that is pulled.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::api {

/// Called once, from any thread.
template <class Reply>
using Answer = std::move_only_function<void(base::Result<Reply>)>;

/// A stream of messages that is pulled one by one, so that a slow reader costs one message of memory.
/// Thread rule: next() is never called while an earlier answer is outstanding; stop() may be called at any
/// time, from any thread, and makes the outstanding answer come soon.
template <class Message>
class Stream {
 public:
  virtual ~Stream() = default;
  /// The next message; nothing at the end.
  virtual void next(Answer<std::optional<Message>> answer) = 0;
  virtual void stop() = 0;
};

/// Takes a stream of messages. Thread rule as above.
template <class Message, class Reply>
class Sink {
 public:
  virtual ~Sink() = default;
  /// `taken` is called when the next one may come; an error ends the stream.
  virtual void take(Message message, Answer<bool> taken) = 0;
  virtual void finish(Answer<Reply> answer) = 0;
};

}  // namespace sandglass::engine::api
