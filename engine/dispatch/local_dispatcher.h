// Carries out actions in this process: finds the activity by name, starts it, and brings its answer back as
// ActionFinished. It decides no retries: a failed attempt is a record, and the next attempt another action.
//
//   submit ─▶ waits (not_before) ─▶ input at hand? ── no ─▶ read it from the view ─▶ starts ─▶ answer ─▶ poll
//                                        └── yes ─────────────────────────────────────┘          │
//            └─ not an activity of this process: to the queues of workers (worker_pool.h), which asks for the
//               input once a worker has room
//                                        start_to_close reached: cancelled, step_timed_out ◀──────┘ whichever
//                                        is first
//
// Of one (stream, path) only the newest token counts: the same token again is the attempt that is under way
// (attach), a greater one supersedes and cancels it, a smaller one is too late. What a superseded or
// timed-out attempt still says is dropped here; the decider would refuse it as well (J8).
//
// An input that is damaged in its record is answered as stream_damaged: the shard parks the stream (E14).
//
// Kinds: start → ActivityRegistry · cancel → whoever carries out the path · reserve, effect →
// core::Operations. Thread rule: one thread; activities answer from any thread. Time limits are on the
// monotonic clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/wakeup.h"
#include "engine/core/payload.h"
#include "engine/core/ports/activity.h"
#include "engine/core/ports/dispatcher.h"
#include "engine/core/ports/operations.h"
#include "engine/core/ports/running.h"
#include "engine/dispatch/worker_pool.h"
#include "engine/shard/view_reads.h"

namespace sandglass::engine::dispatch {

struct DispatchPorts {
  const core::ActivityRegistry& activities;
  core::Operations* operations = nullptr;  // null: reserve and effect fail as activity_unknown
  shard::ViewReads& reads;
  const base::Clock& clock;
  /// The key of the digests that a stream's results get (J23).
  std::function<core::DigestKey(const core::StreamId&)> digest_key;
  base::OnNews on_news;  // may be null
  /// Marks what runs in this process; a suspect is answered with kCrashesCode and not started (J13).
  core::Running* running = nullptr;
  /// Steps whose activity is not registered here, or that name a queue; null: they fail as activity_unknown.
  WorkerPool* workers = nullptr;
};

struct DispatchCounters {
  std::uint64_t started = 0;
  std::uint64_t attached = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t dropped = 0;  // answers of attempts that no longer count
};

class LocalDispatcher final : public core::Dispatcher, private WorkerPool::Owner {
 public:
  explicit LocalDispatcher(DispatchPorts ports);
  ~LocalDispatcher() override;

  void submit(const core::StreamId& stream, core::Action action) override;
  void poll(std::vector<core::FinishedAction>& finished) override;
  std::optional<std::int64_t> next_due_ms() const override;
  void abandon_all() override;

  const DispatchCounters& counters() const { return counters_; }
  std::size_t under_way() const { return attempts_.size(); }
  /// Where the step is among the workers; nothing for one that is not theirs.
  std::optional<WorkerPool::Whereabouts> whereabouts(const core::StreamId& stream,
                                                     const std::string& path) const;

 private:
  using AttemptId = std::uint64_t;
  using Key = std::pair<core::StreamId, std::string>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return core::StreamIdHash()(key.first) * 31 + std::hash<std::string>()(key.second);
    }
  };
  struct Attempt {
    core::StreamId stream;
    core::Action action;
    bool started = false;
    std::multimap<std::int64_t, AttemptId>::iterator waits;     // valid while waiting_for_time
    std::multimap<base::MonotonicNs, AttemptId>::iterator cut;  // valid while has_limit
    bool waiting_for_time = false;
    bool has_limit = false;
    bool with_workers = false;
    std::size_t kept = 0;  // bytes of its input, counted in kept_
  };
  /// Answers on their way from other threads; outlives the dispatcher for those that come too late.
  struct Mailbox;

  void cancel(const core::StreamId& stream, const core::Action& action);
  void begin(AttemptId id);
  void bring_input(AttemptId id);
  using SlotDone = std::move_only_function<void(core::SlotPtr)>;
  /// The payload of an attempt; a failure ends it, and so does its absence.
  void read_slot(AttemptId id, core::PayloadRef ref, SlotDone done);
  bool goes_to_workers(const core::Action& action) const;
  void give_to_workers(AttemptId id);
  AttemptId find(const core::StreamId& stream, const std::string& path) const override;
  void bring(AttemptId id) override;
  void start(AttemptId id);
  void forget(AttemptId id);
  void finish(AttemptId id, core::ActivityResult result, std::vector<core::FinishedAction>& finished);
  void fail(AttemptId id, base::Code code, std::string message);
  core::ActivityDone done(AttemptId id);
  void stop(const Attempt& attempt);

  DispatchPorts ports_;
  DispatchCounters counters_;
  std::shared_ptr<Mailbox> mailbox_;
  AttemptId last_id_ = 0;
  std::unordered_map<AttemptId, Attempt> attempts_;
  std::unordered_map<Key, AttemptId, KeyHash> by_key_;
  std::multimap<std::int64_t, AttemptId> not_before_;
  std::multimap<base::MonotonicNs, AttemptId> limits_;
  std::size_t kept_ = 0;  // bytes of inputs that wait for workers
  std::vector<WorkerPool::Answer> from_workers_;
};

}  // namespace sandglass::engine::dispatch
