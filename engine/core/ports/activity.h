// Port: activities, the code behind actions of kind `start`. In-process ones are registered here by name; the
// dispatcher finds them. An activity may run more than once for one key (at least once): it is either free of
// effects outside the sandbox, or attaches to a known key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/codes.h"
#include "engine/core/action.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

struct ActivityCall {
  StreamId stream;
  std::string name;
  std::string path;
  std::string key;
  Token token;
  SlotPtr input;                       // null: no input
  std::int64_t start_to_close_ms = 0;  // 0: no limit; the dispatcher ends the attempt at the limit by itself
};

/// The end of one attempt. On success `bytes` is the result in `encoding`; the dispatcher makes the digest.
struct ActivityResult {
  Outcome outcome = Outcome::done;
  Encoding encoding = Encoding::json;
  std::string bytes;
  base::Code code = base::Code::ok;
  FailureSide side = FailureSide::user;
  bool retryable = false;
  std::string message;
  std::string type;      // of a failure: the activity's own name for it
  std::string progress;  // JSON; of a failure: the last that the attempt told of its progress
  bool receipt = false;
};

using ActivityDone = std::move_only_function<void(ActivityResult)>;

/// Thread rule: start and cancel are called from one thread and must not block (an activity that needs to
/// block takes a TaskRunner); `done` may be called from any thread, once; later calls are ignored.
class Activity {
 public:
  virtual ~Activity() = default;
  virtual void start(ActivityCall call, ActivityDone done) = 0;
  virtual void cancel(const StreamId& stream, const std::string& path, const Token& token) = 0;
};

/// Filled by the composition root before anything runs, read-only afterwards.
class ActivityRegistry {
 public:
  void add(std::string name, std::shared_ptr<Activity> activity) {
    activities_[std::move(name)] = std::move(activity);
  }
  /// Null for an unknown name.
  Activity* find(const std::string& name) const {
    const auto found = activities_.find(name);
    return found == activities_.end() ? nullptr : found->second.get();
  }
  /// The same, to be registered elsewhere under another guise.
  std::shared_ptr<Activity> share(const std::string& name) const {
    const auto found = activities_.find(name);
    return found == activities_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, std::shared_ptr<Activity>> activities_;
};

}  // namespace sandglass::engine::core
