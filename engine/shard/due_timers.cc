#include "engine/shard/due_timers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/view/keys.h"

namespace sandglass::engine::shard {
namespace {

constexpr std::size_t kPage = 1000;

std::optional<DueTimer> timer_of(const view::Row& row) {
  const auto key = view::parse_index_key(row.key);
  if (!key) return std::nullopt;
  const auto stream = core::StreamId::from_bytes(key->stream);
  if (!stream) return std::nullopt;
  return DueTimer{view::from_sortable(key->sort), *stream, key->suffix};
}

}  // namespace

void DueTimers::open(std::int64_t low_water_ms) {
  horizon_ms_ = low_water_ms;
}

void DueTimers::decided(const core::StreamId& stream, const codec::TurnHeader& header) {
  for (const auto& change : header.timers_ended) {
    const DueTimer timer{change.due_ms, stream, change.key};
    soon_of(timer).erase(timer);
    fired_.erase(timer);
    undurable_.erase(timer);
    ended_.insert(timer);
  }
  for (const auto& change : header.timers_started) {
    const DueTimer timer{change.due_ms, stream, change.key};
    ended_.erase(timer);
    if (timer.due_ms < horizon_ms_) soon_of(timer).insert(timer);
    undurable_.insert(timer);
  }
  shed();
}

void DueTimers::durable(const core::StreamId& stream, const codec::TurnHeader& header) {
  for (const auto& change : header.timers_started) undurable_.erase({change.due_ms, stream, change.key});
  for (const auto& change : header.timers_ended)
    ended_durable_.push_back({change.due_ms, stream, change.key});
  if (!scanning_) forget_ended();
}

void DueTimers::forget_ended() {
  for (const DueTimer& timer : ended_durable_) ended_.erase(timer);
  ended_durable_.clear();
}

void DueTimers::poll(const Now& now, std::size_t limit, std::vector<DueTimer>& out) {
  look_ahead(std::max(now.wall_ms, now.calendar()));
  const std::pair<std::set<DueTimer>*, std::int64_t> clocks[] = {{&soon_, now.wall_ms},
                                                                 {&soon_by_calendar_, now.calendar()}};
  for (const auto& [soon, now_ms] : clocks) {
    while (limit > 0 && !soon->empty() && soon->begin()->due_ms <= now_ms) {
      --limit;
      auto node = soon->extract(soon->begin());
      out.push_back(node.value());
      fired_.insert(std::move(node));
    }
  }
}

// The horizon moves first and the scan follows: what is decided meanwhile goes straight to memory.
void DueTimers::look_ahead(std::int64_t now_ms) {
  const std::int64_t wanted = now_ms + options_.horizon_ms;
  if (scanning_ || !status_ || soon() >= options_.max_timers) return;
  if (horizon_ms_ > now_ms + options_.horizon_ms / 2) return;
  const std::int64_t from = horizon_ms_;
  horizon_ms_ = wanted;
  for (auto timer = undurable_.lower_bound({from, {}, {}}); timer != undurable_.end(); ++timer) {
    if (timer->due_ms >= horizon_ms_) break;
    soon_of(*timer).insert(*timer);
  }
  scan_from_ms_ = from;
  scan(from, wanted, {});
}

void DueTimers::scan(std::int64_t from_ms, std::int64_t until_ms, std::string from_key) {
  scanning_ = true;
  view::KeyRange range = view::index_range(options_.partition, view::Index::due, view::sortable(from_ms),
                                           view::sortable(until_ms));
  if (!from_key.empty()) range.first = std::move(from_key);
  reads_.scan(
      {.first = range.first, .last = range.last, .limit = kPage},
      [this, until_ms](base::Result<view::ScanResult> page) { take_page(until_ms, std::move(page)); });
}

void DueTimers::take_page(std::int64_t until_ms, base::Result<view::ScanResult> page) {
  scanning_ = false;
  if (!page) {
    status_ = std::unexpected(page.error());
    return;
  }
  for (const view::Row& row : page->rows) {
    auto timer = timer_of(row);
    if (!timer) {
      status_ = base::fail(base::Code::record_damaged,
                           "a row of the due index is malformed; it is made from records: stop the server "
                           "and run `sandglass rebuild`, which makes all such rows anew");
      return;
    }
    if (ended_.contains(*timer) || fired_.contains(*timer)) continue;
    if (timer->due_ms < horizon_ms_) soon_of(*timer).insert(*timer);
  }
  shed();
  if (page->more && !page->rows.empty() && horizon_ms_ >= until_ms) {
    std::string next = std::move(page->rows.back().key);
    next.push_back('\0');
    return scan(0, until_ms, std::move(next));
  }
  forget_ended();
}

// Too many are due soon: those that are due last go back to the index alone, and the horizon with them.
void DueTimers::shed() {
  for (auto* soon : {&soon_, &soon_by_calendar_}) {
    if (soon->size() <= 2 * options_.max_timers) continue;
    const auto last = std::next(soon->begin(), static_cast<std::ptrdiff_t>(options_.max_timers));
    horizon_ms_ = last->due_ms + 1;
    for (auto* cut : {&soon_, &soon_by_calendar_}) {
      cut->erase(cut->lower_bound(DueTimer{horizon_ms_, {}, {}}), cut->end());
    }
  }
}

std::int64_t DueTimers::low_water_ms() const {
  std::int64_t low = scanning_ ? std::min(scan_from_ms_, horizon_ms_) : horizon_ms_;
  for (const auto* timers : {&soon_, &soon_by_calendar_, &fired_, &undurable_}) {
    if (!timers->empty()) low = std::min(low, timers->begin()->due_ms);
  }
  return low;
}

std::optional<std::int64_t> DueTimers::next_due_ms(const Now& now) const {
  std::optional<std::int64_t> next;
  if (!soon_.empty()) next = soon_.begin()->due_ms;
  if (!soon_by_calendar_.empty()) {
    const std::int64_t due = soon_by_calendar_.begin()->due_ms - now.calendar() + now.wall_ms;
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

}  // namespace sandglass::engine::shard
