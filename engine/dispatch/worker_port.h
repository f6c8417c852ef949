// What passes between the queues of steps (worker_pool.h) and a worker's connection, free of any RPC
// framework.
//
//   engine ─▶ tasks · cancelled · settled · gone        worker ─▶ completions · heartbeats · handed back ·
//   drain
//
// A worker keeps a task until it is told that the answer is settled (durable) or that the task is gone, also
// over restarts of the engine: on coming back it names what it keeps, and what is still open goes on under
// the same token (J8).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/payload.h"
#include "engine/core/ports/activity.h"
#include "engine/core/stream_id.h"
#include "engine/core/token.h"

namespace sandglass::engine::dispatch {

/// One attempt of one step, as its worker knows it: the token is the one that it was handed out with.
struct TaskId {
  core::StreamId stream;
  std::string path;
  core::Token token;
  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};
struct TaskIdHash {
  std::size_t operator()(const TaskId& id) const {
    return core::StreamIdHash()(id.stream) * 31 + std::hash<std::string>()(id.path) + id.token.counter;
  }
};

struct WorkerTask {
  TaskId id;
  std::string activity;
  std::string queue;
  std::string tenant;
  std::string key;  // stable over attempts
  core::SlotPtr input;
  core::SlotPtr progress;              // what an earlier attempt last told; null: nothing
  std::int64_t start_to_close_ms = 0;  // from now; 0: no limit
  std::int64_t heartbeat_ms = 0;       // 0: none are asked for
};

struct EngineSays {
  std::vector<WorkerTask> tasks;
  std::vector<TaskId> cancelled;  // shall end soon; the answer still counts
  std::vector<TaskId> settled;    // the answer is durable
  std::vector<TaskId> gone;       // nothing waits for it any more: stop it, forget it

  bool empty() const { return tasks.empty() && cancelled.empty() && settled.empty() && gone.empty(); }
};

struct WorkerHello {
  std::string worker;  // of this process, unlike any other's
  std::string tenant;  // of its token: it gets no other's work
  bool all_tenants = false;
  std::vector<std::string> queues;
  std::uint32_t capacity = 1;  // tasks at a time
  std::vector<TaskId> held;    // what it has of an earlier connection, answered ones included
};

struct WorkerAnswer {
  TaskId id;
  core::ActivityResult result;
};
struct WorkerProgress {
  TaskId id;
  std::string details;  // JSON; empty: only a sign of life
};
struct WorkerSays {
  std::vector<WorkerAnswer> answers;
  std::vector<WorkerProgress> heartbeats;
  std::vector<TaskId> handed_back;  // not begun
  bool drains = false;              // wants nothing more
};

/// The engine's end of a connection. Thread rule: any thread; never blocks.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void say(EngineSays words) = 0;
  virtual void close(base::Error why) = 0;
};

}  // namespace sandglass::engine::dispatch
