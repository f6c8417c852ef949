// One engine process after another on one disk: shards, dispatcher and ports, the clock, and crashes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/steady_clock.h"
#include "engine/core/ports/activity.h"
#include "engine/core/ports/operations.h"
#include "engine/dispatch/local_dispatcher.h"
#include "engine/journal/memory/journal.h"
#include "engine/shard/shard_set.h"
#include "engine/view/keys.h"
#include "engine/view/memory/view.h"
#include "tests/simulation/outside.h"
#include "tests/simulation/sim_ports.h"
#include "tests/simulation/simulation.h"

namespace sandglass::tests::simulation {

namespace shard = engine::shard;

inline constexpr std::uint16_t kPartitions = 3;

/// What a workload brings.
struct Workload {
  /// Of each process. `disorder`: answers may come some polls later.
  std::function<std::unique_ptr<core::Activator>(bool disorder)> make_activator;
  /// Called at each start of a process, whose activities end with it.
  std::function<void(core::ActivityRegistry&)> add_activities;
  std::function<core::Operations*()> operations = [] { return nullptr; };
  /// Plant::effect_before_intent: sees records before they are durable.
  std::function<void(const journal::Batch&)> peek;
  /// What of the outside is still to come in this process: virtual time of the next, and doing what is due.
  std::function<std::int64_t()> next_outside_ns;
  std::function<void()> poll_outside;
};

/// The loop of a simulation, as its workload fills it in.
struct Play {
  std::function<bool()> done;
  std::function<void()> talk;           // of callers and people, before each poll
  std::function<void()> process_ended;  // a process has ended: what was under way outside is nobody's
  std::function<void()> polled;
  std::uint64_t max_polls = 0;
  std::uint64_t calm_least = 0;  // so many polls, and up to `calm_spread` more, have crashes and set clocks
  std::uint64_t calm_spread = 0;
  std::uint64_t crash_every = 0;  // polls, on average
};

class SimEngine {
 public:
  SimEngine(const SimOptions& options, support::SeededRandom& random, const engine::fold::Registry& kinds,
            Workload workload, SimResult& result);
  ~SimEngine();

  void start();
  /// Power is lost and comes back: what was not synced may be gone.
  void crash();
  /// One poll, then the passing of time. True: the process was replaced because it had lost its journal.
  bool step();

  /// From the first start until everything is done, something is wrong or polls run out.
  void play(const SimResult& result, const Play& play);

  shard::ShardSet& set() { return *set_; }
  bool running() const { return set_ != nullptr; }
  const view::MemoryDisk& disk() const { return disk_; }
  /// The machine's.
  const SimClock& clock() const { return clock_; }
  /// The engine's time, of the present process.
  const base::Clock& engine_clock() const { return *steady_; }
  /// Somebody sets the machine's wall clock (ADV-E9).
  void set_wall_clock(base::WallMs off_ms) { clock_.off_ms = off_ms; }
  bool quiet() const { return set_->quiet(); }
  std::size_t actions_under_way() const { return dispatcher_->under_way(); }
  /// Counts processes: answers of an earlier one are not for the present callers.
  std::uint64_t process() const { return process_; }

 private:
  void end();
  void plant_in_journal(journal::Journal*& used);
  void plant_in_view(view::View*& used);
  bool misses(view::Index index, const view::Row& row);
  bool misses(view::StreamRow kind, const view::Row& row);

  SimOptions options_;
  support::SeededRandom& random_;
  support::SeededRandom clock_random_;  // of its own: seeds that were kept stay what they were
  const engine::fold::Registry& kinds_;
  Workload workload_;
  SimResult& result_;
  view::MemoryDisk disk_;
  SimClock clock_;
  std::unique_ptr<base::Clock> steady_;
  std::uint64_t process_ = 0;

  std::unique_ptr<journal::MemoryJournal> journal_;
  std::unique_ptr<journal::Journal> planted_journal_;
  std::unique_ptr<view::MemoryView> view_;
  std::unique_ptr<view::View> planted_view_;
  std::unique_ptr<shard::ViewReads> reads_;
  std::unique_ptr<core::ActivityRegistry> registry_;
  std::unique_ptr<core::Activator> activator_;
  std::unique_ptr<engine::dispatch::LocalDispatcher> dispatcher_;
  std::unique_ptr<shard::ShardSet> set_;
};

}  // namespace sandglass::tests::simulation
