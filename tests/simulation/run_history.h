// Runs as their durable records tell of them, for the judges of the simulations.
//
// Ownership: disk and kinds outlive this. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "engine/codec/record.h"
#include "engine/fold/stream_fold.h"
#include "engine/run/events.h"
#include "engine/run/state.h"
#include "engine/view/keys.h"
#include "engine/view/memory/disk.h"
#include "engine/workflow/context.h"

namespace sandglass::tests::simulation {

class RunHistory {
 public:
  using Json = engine::workflow::Json;

  RunHistory(const engine::view::MemoryDisk& disk, const engine::fold::Registry& kinds)
      : disk_(disk), kinds_(kinds) {}

  /// Calls visit(event, turn) for every durable event of a stream, in order.
  template <class Event, class Visit>
  void for_each_event(const engine::core::StreamId& stream, Visit visit) const {
    const engine::view::KeyRange range = engine::view::record_range(stream, 1);
    const auto& rows = disk_.rows();
    for (auto row = rows.lower_bound(range.first); row != rows.end() && row->first < range.last; ++row) {
      const auto turn = turn_of(stream, row->first);
      if (!turn) return;  // damaged: what comes after it is not read either
      for (const Event& event : static_cast<const engine::core::Events<Event>&>(*turn->events).items)
        visit(event, *turn);
    }
  }

  engine::run::State state_of(const engine::core::StreamId& stream) const;
  /// What the run has given back; null: nothing.
  Json result_of(const engine::core::StreamId& stream) const;

  /// These runs, those that they went on as, and the children of all of them.
  std::vector<engine::core::StreamId> families(const std::vector<engine::core::StreamId>& streams) const;
  /// The run that it went on as in the end.
  engine::core::StreamId last_of(engine::core::StreamId stream) const;
  bool all_closed(const std::vector<engine::core::StreamId>& streams) const;
  /// "run-… is running; " of each, for messages.
  std::string standings(const std::vector<engine::core::StreamId>& streams) const;
  /// Every event with number, name and bytes; two simulations of one seed are compared by it (J32).
  std::vector<std::string> lines(const engine::core::StreamId& stream, bool with_time) const;

 private:
  /// An error for what is damaged.
  engine::base::Result<engine::core::StoredRecord> record_of(const engine::core::StreamId& stream,
                                                             const std::string& key) const;
  engine::base::Result<engine::fold::ReadTurn> turn_of(const engine::core::StreamId& stream,
                                                       const std::string& key) const;

  const engine::view::MemoryDisk& disk_;
  const engine::fold::Registry& kinds_;
};

}  // namespace sandglass::tests::simulation
