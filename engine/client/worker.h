// Carries out steps for an engine, in this process: functions by the name of their activity.
//
//   Worker worker({.connect = …});
//   worker.add("image.resize", [](const Task& task, Attempt& attempt) { …; return Ended::done("{\"w\":1}");
//   }); worker.run();   // until drain() has ended it
//
// It connects again by itself, names what it has, and sends again what was not settled. A function may run
// more than once for one key, as the step's policy says. drain() takes nothing more, hands back what has not
// begun and waits for the rest for `grace_ms`; what has not ended by then is given back as interrupted, with
// the last that it told of its progress.
//
// Thread rule: add before run; run once; drain from any thread (not from a signal handler). Functions run on
// threads of the worker, at most `capacity` side by side, and must not throw. Functions that have not come
// back when run() returns go on until the process ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/client/client.h"

namespace sandglass::engine::client {

struct WorkerOptions {
  ConnectOptions connect;
  std::string name;  // empty: made up; of this process, unlike any other's
  std::uint32_t capacity = 16;
  std::int64_t grace_ms = 10'000;
};

struct Task {
  std::string run_id, path, activity, queue, tenant;
  std::string key;  // the same for all attempts
  std::uint32_t attempt = 1;
  std::string input;     // JSON; empty: none
  std::string progress;  // JSON, what an earlier attempt last told; empty: nothing
  std::int64_t start_to_close_ms = 0;
};

/// What the function may say and ask while it runs.
class Attempt {
 public:
  virtual ~Attempt() = default;
  /// JSON: the next attempt gets the last one that was told. Empty: only a sign of life.
  virtual void heartbeat(std::string details) = 0;
  /// Its end is not waited for any more, or the worker stops: end soon.
  virtual bool cancelled() const = 0;
};

/// How the function ended.
struct Ended {
  bool is_done = false;
  std::string result;   // JSON
  std::string type;     // of a failure: a name that the step's policy may call final
  std::string message;  // for people
  bool final = false;   // no further attempt

  static Ended done(std::string json) { return {.is_done = true, .result = std::move(json)}; }
  static Ended failed(std::string message, std::string type = {}, bool final = false) {
    return {.type = std::move(type), .message = std::move(message), .final = final};
  }
};

class Worker {
 public:
  using Function = std::function<Ended(const Task&, Attempt&)>;

  explicit Worker(WorkerOptions options);
  ~Worker();

  /// `queue`: whose steps; empty: those of the activity's name.
  void add(const std::string& activity, Function function, const std::string& queue = {});
  /// Errors: unauthenticated, permission_denied, invalid_argument: what trying again does not cure.
  base::Status run();
  void drain();
  const std::string& name() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sandglass::engine::client
