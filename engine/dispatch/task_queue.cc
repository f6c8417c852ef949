#include "engine/dispatch/task_queue.h"

#include <algorithm>
#include <cmath>

namespace sandglass::engine::dispatch {
namespace {

std::pair<std::int64_t, std::uint64_t> rank(const Place& place) {
  return {-std::int64_t{place.priority}, place.order};
}

}  // namespace

void TaskQueue::put(const Place& place, Id id, std::int64_t since_ms) {
  Line& line = lines_[place.tenant];
  if (line.waiting.empty()) line.pass = std::max(line.pass, pass_);  // nobody saves up
  size_ += line.waiting.emplace(rank(place), Waiting{id, since_ms}).second;
}

void TaskQueue::take_out(const Place& place) {
  const auto line = lines_.find(place.tenant);
  if (line == lines_.end()) return;
  size_ -= line->second.waiting.erase(rank(place));
  if (line->second.waiting.empty() && line->second.pass <= pass_) lines_.erase(line);
}

std::optional<TaskQueue::Id> TaskQueue::next(std::string_view tenant, std::int64_t now_ms) {
  if (held_until_ms(now_ms) != 0) return std::nullopt;
  auto chosen = lines_.end();
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    if (line->second.waiting.empty() || (!tenant.empty() && line->first != tenant)) continue;
    if (chosen == lines_.end() || line->second.pass < chosen->second.pass) chosen = line;
  }
  if (chosen == lines_.end()) return std::nullopt;
  Line& line = chosen->second;
  const Id id = line.waiting.begin()->second.id;
  line.waiting.erase(line.waiting.begin());
  --size_;
  const auto weight = limits_.weights.find(chosen->first);
  pass_ = line.pass;
  line.pass += 1.0 / (weight == limits_.weights.end() ? 1.0 : std::max(weight->second, 0.001));
  if (limits_.per_second > 0) permits_ -= 1;
  return id;
}

void TaskQueue::refill(std::int64_t now_ms) {
  const double most = std::max(1.0, limits_.per_second);  // what a second allows
  if (refilled_ms_ == 0) permits_ = most;
  const auto passed = static_cast<double>(std::max<std::int64_t>(now_ms - refilled_ms_, 0));
  if (refilled_ms_ != 0) permits_ = std::min(most, permits_ + passed * limits_.per_second / 1000);
  refilled_ms_ = std::max(refilled_ms_, now_ms);
}

std::int64_t TaskQueue::held_until_ms(std::int64_t now_ms) {
  if (limits_.per_second <= 0) return 0;
  refill(now_ms);
  if (permits_ >= 1 - 1e-9) return 0;
  return now_ms +
         std::max<std::int64_t>(1, std::llround(std::ceil((1 - permits_) * 1000 / limits_.per_second)));
}

std::optional<std::int64_t> TaskQueue::oldest_ms() const {
  std::optional<std::int64_t> oldest;
  for (const auto& [tenant, line] : lines_) {
    for (const auto& [place, waiting] : line.waiting) {
      if (!oldest || waiting.since_ms < *oldest) oldest = waiting.since_ms;
    }
  }
  return oldest;
}

}  // namespace sandglass::engine::dispatch
