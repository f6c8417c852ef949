// Steps forwards and backwards over the history of one stream. Position n is "after record n"; 0 is before
// the first.
//
//   Debugger debugger(*timeline);
//   debugger.next(Stop::operation);
//   Frame frame = debugger.frame();   // what the record says, what it changed, what is pending after it
//
// Pure: no clock, I/O or output; texts in a frame are as recorded and must be escaped by whoever shows them.
// Ownership: the timeline outlives the debugger. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay-tools/replay/timeline.h"

namespace sandglass::replay_tools::debugger {

/// Where next() and previous() stop: any record, or one with an event of this sort.
enum class Stop { record, step, operation, error };

struct Timer {
  std::string key;
  std::int64_t due_ms = 0;
};

/// Everything about one position. Before the first record only `last` and `state` are set.
struct Frame {
  std::uint64_t seq = 0;
  std::uint64_t last = 0;
  std::int64_t time_ms = 0;
  std::uint64_t epoch = 0;
  std::uint64_t turn_first = 0;  // first record of the turn, where it has several; else 0
  std::string cause;             // "request …", "message …", or empty: a completion, a timer or workflow code
  std::string leaf;              // hex
  std::vector<replay::DescribedEvent> events;
  std::vector<replay::Sent> sent;
  std::vector<Timer> timers_started;
  std::vector<Timer> timers_ended;
  replay::Facts state;
  std::vector<replay::Change> changes;
  std::vector<std::string> pending;  // actions that recovery would start again
};

class Debugger {
 public:
  /// Starts before the first record.
  explicit Debugger(const replay::Timeline& timeline) : timeline_(&timeline) {}

  std::uint64_t at() const { return at_; }
  /// False, and not moved, if there is no such place.
  bool go_to(std::uint64_t seq);
  bool next(Stop stop = Stop::record);
  bool previous(Stop stop = Stop::record);

  Frame frame() const;
  /// From position `from` to position `to`, in either direction.
  std::vector<replay::Change> difference(std::uint64_t from, std::uint64_t to) const;

 private:
  bool is_stop(std::uint64_t seq, Stop stop) const;

  const replay::Timeline* timeline_;
  std::uint64_t at_ = 0;
};

}  // namespace sandglass::replay_tools::debugger
