// Timers of one partition, each due by one of two clocks (core::is_calendar_timer): the engine's time, which
// never steps, or the calendar, which somebody may set. The truth is the due index, a function of records;
// memory holds only what is due soon (E3). Nothing is lost when this is dropped.
//
//        past            now               horizon                              index only
//   ───────┼──────────────┼──────────────────┼──────────────────────────────────────────▶ due time
//      low-water   fired ─┘   in memory      └─ moves ahead by scans of the index, page by page
//
// A timer is in `soon_` while it is due before the horizon, from the moment it is decided; from firing until
// its stream has decided, in `fired_`. As long as its start is not durable it is also in `undurable_`, since
// a scan could not see it; once its end is decided but not durable in `ended_`, since a scan would still see
// it.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/codec/header.h"
#include "engine/core/decider.h"
#include "engine/core/stored_record.h"
#include "engine/shard/envelope.h"
#include "engine/shard/view_reads.h"

namespace sandglass::engine::shard {

struct DueTimer {
  std::int64_t due_ms = 0;
  core::StreamId stream;
  std::string key;
  friend auto operator<=>(const DueTimer&, const DueTimer&) = default;
};

struct DueTimersOptions {
  core::PartitionId partition = 0;
  std::int64_t horizon_ms = 60'000;
  std::size_t max_timers = 50'000;
};

class DueTimers {
 public:
  using Options = DueTimersOptions;

  DueTimers(ViewReads& reads, Options options) : reads_(reads), options_(options) {}

  /// Where scans begin: the persisted low-water mark (J10); 0 if there is none.
  void open(std::int64_t low_water_ms);

  /// A decided record's changes, in its order: first ended, then started.
  void decided(const core::StreamId& stream, const codec::TurnHeader& header);
  /// The same record is durable.
  void durable(const core::StreamId& stream, const codec::TurnHeader& header);

  /// Moves timers that are due into `out`, at most `limit`, and looks ahead.
  void poll(const Now& now, std::size_t limit, std::vector<DueTimer>& out);
  /// Whether a timer that was handed out is still to be decided: another decision may have ended it
  /// meanwhile.
  bool is_fired(const DueTimer& timer) const { return fired_.contains(timer); }

  /// No timer that is not ended by a record decided so far is due before this.
  std::int64_t low_water_ms() const;
  /// In the engine's time.
  std::optional<std::int64_t> next_due_ms(const Now& now) const;
  std::size_t in_memory() const {
    return soon_.size() + soon_by_calendar_.size() + fired_.size() + undurable_.size() + ended_.size();
  }
  base::Status status() const { return status_; }

 private:
  std::set<DueTimer>& soon_of(const DueTimer& timer) {
    return core::is_calendar_timer(timer.key) ? soon_by_calendar_ : soon_;
  }
  std::size_t soon() const { return soon_.size() + soon_by_calendar_.size(); }
  void look_ahead(std::int64_t now_ms);
  void scan(std::int64_t from_ms, std::int64_t until_ms, std::string from_key);
  void take_page(std::int64_t until_ms, base::Result<view::ScanResult> page);
  void shed();
  void forget_ended();

  ViewReads& reads_;
  Options options_;
  std::int64_t horizon_ms_ = 0;
  bool scanning_ = false;
  std::int64_t scan_from_ms_ = 0;  // of the scan that is under way: from here on memory is not complete
  base::Status status_;
  std::set<DueTimer> soon_;
  std::set<DueTimer> soon_by_calendar_;
  std::set<DueTimer> fired_;
  std::set<DueTimer> undurable_;
  std::set<DueTimer> ended_;
  std::vector<DueTimer> ended_durable_;  // of ended_; kept until no scan is under way
};

}  // namespace sandglass::engine::shard
