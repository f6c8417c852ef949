#include "replay-tools/debugger/debugger.h"

#include <algorithm>

namespace sandglass::replay_tools::debugger {
namespace {

std::string cause_of(const engine::codec::TurnHeader& header) {
  if (!header.request_id.empty()) return "request " + header.request_id;
  if (header.consumed) {
    return "message " + std::to_string(header.consumed->source_seq) + "/" +
           std::to_string(header.consumed->index) + " from " + header.consumed->source.text();
  }
  return {};
}

std::vector<Timer> timers_of(const std::vector<engine::codec::HeaderTimer>& timers) {
  std::vector<Timer> made;
  for (const auto& timer : timers) made.push_back({.key = timer.key, .due_ms = timer.due_ms});
  return made;
}

}  // namespace

bool Debugger::go_to(std::uint64_t seq) {
  if (seq > timeline_->last()) return false;
  at_ = seq;
  return true;
}

bool Debugger::is_stop(std::uint64_t seq, Stop stop) const {
  if (stop == Stop::record) return true;
  const auto events = timeline_->describer().events(*timeline_->turn(seq).events);
  return std::ranges::any_of(events, [&](const replay::DescribedEvent& event) {
    return (stop == Stop::step && event.marks.step) || (stop == Stop::operation && event.marks.operation) ||
           (stop == Stop::error && event.marks.error);
  });
}

bool Debugger::next(Stop stop) {
  for (std::uint64_t seq = at_ + 1; seq <= timeline_->last(); ++seq) {
    if (is_stop(seq, stop)) return go_to(seq);
  }
  return false;
}

bool Debugger::previous(Stop stop) {
  for (std::uint64_t seq = at_; seq > 1; --seq) {
    if (is_stop(seq - 1, stop)) return go_to(seq - 1);
  }
  return stop == Stop::record && at_ == 1 && go_to(0);
}

Frame Debugger::frame() const {
  Frame frame{.seq = at_, .last = timeline_->last()};
  frame.state = timeline_->facts_after(at_);
  if (at_ == 0) return frame;
  const auto& header = timeline_->turn(at_).header;
  frame.time_ms = header.time_ms;
  frame.epoch = header.epoch;
  frame.turn_first = header.continues;
  frame.cause = cause_of(header);
  frame.leaf = timeline_->turn(at_).leaf.hex();
  frame.events = timeline_->describer().events(*timeline_->turn(at_).events);
  frame.sent = timeline_->sent(at_);
  frame.timers_started = timers_of(header.timers_started);
  frame.timers_ended = timers_of(header.timers_ended);
  frame.changes = replay::difference(timeline_->facts_after(at_ - 1), frame.state);
  for (const auto& action : timeline_->pending_after(at_)) frame.pending.push_back(replay::describe(action));
  return frame;
}

std::vector<replay::Change> Debugger::difference(std::uint64_t from, std::uint64_t to) const {
  return replay::difference(timeline_->facts_after(from), timeline_->facts_after(to));
}

}  // namespace sandglass::replay_tools::debugger
