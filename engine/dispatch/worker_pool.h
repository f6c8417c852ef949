// Steps that workers in other processes carry out: who waits in which queue, who carries out what, and what
// becomes of it when somebody goes away.
//
//   enqueue ─▶ waits in its queue ── a worker of it has room ──▶ payloads brought ─▶ out ─▶ answered ─▶
//   settled
//      │            │ schedule-to-start, schedule-to-close          ▲          │ start-to-close, heartbeat
//      │            ▼ over: worker_missing                          │          ▼ over: step_timed_out
//      └▶ of an attempt from before this engine began: waits for the worker that may have it, which names it
//
//   a connection ends ─▶ its worker has `lease_ms` to come back: then worker_lost, and the policy decides. It
//                        comes back ─▶ what it names goes on, what it does not has never reached it: queued
//                        anew
//
// Liveness is here and never a record (J9). An answer counts only from the worker that has the task, with the
// token under which it has it; one of an older epoch only after the worker has named it again (J8). Memory:
// an entry a step that is open; payloads are read when a worker has room.
//
// Thread rule: attach, hear, detach and opened from any thread; the rest on the dispatcher's. Ownership: the
// owner and the clock outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/wakeup.h"
#include "engine/core/action.h"
#include "engine/dispatch/task_queue.h"
#include "engine/dispatch/worker_port.h"

namespace sandglass::engine::dispatch {

struct WorkerSettings {
  std::int64_t lease_ms = 10'000;    // how long a worker that is away, or silent, keeps what it has
  std::int64_t reattach_ms = 2'000;  // after the opening, attempts from before wait so long to be named
  std::int64_t alarm_ms = 10'000;    // a queue that nobody serves for so long is logged (E14)
  std::map<std::string, double, std::less<>> rates;    // of queues, per second
  std::map<std::string, double, std::less<>> weights;  // of tenants
};

/// A queue as people see it.
struct QueueView {
  std::string name;
  std::uint64_t waiting = 0;
  std::int64_t oldest_ms = 0;  // wall time; 0: nothing waits
  std::uint32_t workers = 0;
  std::uint64_t out = 0;  // handed out
};

class WorkerPool {
 public:
  using Id = std::uint64_t;
  using SessionId = std::uint64_t;
  struct Answer {
    Id id = 0;
    core::ActivityResult result;
  };
  /// The dispatcher: it has the steps.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Id find(const core::StreamId& stream, const std::string& path) const = 0;  // 0: none
    /// Calls send() as soon as the payloads are at hand; not from within, if they must be read.
    virtual void bring(Id id) = 0;
  };

  WorkerPool(const base::Clock& clock, WorkerSettings settings);

  // ---- connections

  SessionId attach(std::shared_ptr<WorkerLink> link, WorkerHello hello);
  void hear(SessionId session, WorkerSays words);
  void detach(SessionId session);
  /// Workers can reach this engine from now on.
  void opened() { opened_ms_ = clock_.wall_ms(); }
  std::int64_t lease_ms() const { return settings_.lease_ms; }

  // ---- the dispatcher

  void own(Owner* owner, base::OnNews on_news);
  /// Both stay where they are until forget().
  void enqueue(Id id, const core::StreamId& stream, const core::Action& action);
  void send(Id id, core::SlotPtr input, core::SlotPtr progress);
  void cancel(Id id);
  void forget(Id id);
  /// The answer to the attempt with this token is durable.
  void settled(const core::StreamId& stream, const std::string& path, const core::Token& token);
  void poll(std::vector<Answer>& answers);
  std::optional<std::int64_t> next_due_ms() const;
  void abandon_all();

  // ---- people

  std::vector<QueueView> queues() const;
  /// Where a step is: "waits for a worker of X", with since when; nothing for one that is not here.
  struct Whereabouts {
    std::string text;
    std::int64_t since_ms = 0;
  };
  std::optional<Whereabouts> whereabouts(Id id) const;

 private:
  struct Session {
    SessionId id = 0;
    std::shared_ptr<WorkerLink> link;  // null: away
    WorkerHello hello;
    std::unordered_set<Id> tasks;
    std::int64_t heard_ms = 0;
    bool draining = false;
    EngineSays outgoing;

    bool serves(const core::Action& action) const {
      return hello.all_tenants || action.tenant == hello.tenant;
    }
    bool takes() const { return link && !draining && tasks.size() < hello.capacity; }
  };
  enum class Stage : std::uint8_t { held_back, waiting, loading, out, over };
  struct Task {
    const core::StreamId* stream;
    const core::Action* action;
    Place place;
    Stage stage = Stage::waiting;
    Session* session = nullptr;  // of loading and out
    core::Token token;           // under which its worker knows it
    std::int64_t out_ms = 0;
    std::int64_t heard_ms = 0;
    std::string progress;
    bool cancelled = false;
    bool ended = false;  // answered or timed out
    std::optional<std::multimap<std::int64_t, Id>::iterator> deadline;
  };
  struct Queue {
    explicit Queue(QueueLimits limits) : tasks(std::move(limits)) {}
    TaskQueue tasks;
    std::vector<Session*> sessions;
    std::size_t turn = 0;  // whose it is
    std::int64_t unserved_since_ms = 0;
    bool alarmed = false;
  };
  /// What a worker has named and no step has been met for yet: its run may still be on its way into memory.
  struct Claim {
    core::Token token;
    std::int64_t until_ms = 0;
    std::optional<core::ActivityResult> result;
  };
  struct Unsettled {
    std::string worker;
    TaskId id;  // as its worker knows it
    std::int64_t until_ms = 0;
  };
  struct Attached {
    SessionId id;
    std::shared_ptr<WorkerLink> link;
    WorkerHello hello;
  };
  struct Heard {
    SessionId id;
    WorkerSays words;
  };
  struct Detached {
    SessionId id;
  };
  using News = std::variant<Attached, Heard, Detached>;
  using Step = std::pair<core::StreamId, std::string>;

  // sessions: worker_pool.cc
  void take(Attached news);
  void take(Heard news, std::vector<Answer>& answers);
  void take(Detached news);
  void take_over(Session& session, Session& former);
  void name(Session& session, const TaskId& id);
  void answered(Session& session, WorkerAnswer answer, std::vector<Answer>& answers);
  void end(Id id, Task& task, core::ActivityResult result, std::vector<Answer>& answers);
  void handed_back(Session& session, const TaskId& id);
  Task* task_of(const Session& session, const TaskId& id, Id* found = nullptr);
  Session* session_of(std::string_view worker);
  void leave_queues(Session& session);
  void flush();

  // queues and times: worker_times.cc
  Queue& queue_of(const core::Action& action);
  void line_up(Id id, Task& task);
  void leave(Id id, Task& task);
  void hand_out(std::int64_t now_ms);
  void hand_out(Queue& queue, std::int64_t now_ms);
  void note_unserved(const std::string& name, Queue& queue);
  void attach_to(Session& session, Id id, Task& task, const core::Token& token);
  bool claimed(Id id, Task& task, std::vector<Answer>& answers);
  std::int64_t deadline_of(const Task& task) const;
  void watch(Id id, Task& task);
  void pass_deadlines(std::int64_t now_ms, std::vector<Answer>& answers);
  void pass_leases(std::int64_t now_ms, std::vector<Answer>& answers);
  void pass_waits(std::int64_t now_ms);
  bool held_back(std::int64_t now_ms) const;
  /// What a worker has is this attempt, of this owner or one before it (J8).
  static bool is_attempt(const core::Token& named, const core::Token& current) {
    return named.attempt == current.attempt && named.counter == current.counter &&
           named.epoch <= current.epoch;
  }

  const base::Clock& clock_;
  const WorkerSettings settings_;
  const std::int64_t began_ms_;
  std::atomic<std::int64_t> opened_ms_{0};

  std::mutex mutex_;  // of the two below and of last_session_
  std::vector<News> inbox_;
  base::OnNews on_news_;
  SessionId last_session_ = 0;

  // Of the dispatcher's thread.
  Owner* owner_ = nullptr;
  std::uint64_t last_order_ = 0;
  std::unordered_map<Id, Task> tasks_;
  std::map<std::string, Queue, std::less<>> queues_;
  std::map<SessionId, std::unique_ptr<Session>> sessions_;
  std::multimap<std::int64_t, Id> deadlines_;
  std::set<Id> held_back_;
  std::map<std::pair<Step, std::string>, Claim> claims_;         // by the worker as well
  std::unordered_map<TaskId, Unsettled, TaskIdHash> unsettled_;  // by the token of the step's action
  std::vector<Answer> early_;                                    // of claims that met their step in enqueue()
};

}  // namespace sandglass::engine::dispatch
