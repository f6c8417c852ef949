// One queue of steps that wait for workers: tenants take turns by weight, a tenant's steps go by priority and
// then in order, and a rate may bound how many are handed out a second (E13). It holds numbers alone: what
// the steps are stands in the journal.
//
// Thread rule: one thread. Pure but for its own state; time is given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sandglass::engine::dispatch {

struct QueueLimits {
  double per_second = 0;                               // 0: no limit
  std::map<std::string, double, std::less<>> weights;  // of tenants; 1 where nothing is said
};

struct Place {
  std::string tenant;
  std::int32_t priority = 0;
  std::uint64_t order = 0;  // among equals; a step that comes back keeps its own
};

class TaskQueue {
 public:
  using Id = std::uint64_t;
  explicit TaskQueue(QueueLimits limits = {}) : limits_(std::move(limits)) {}

  void put(const Place& place, Id id, std::int64_t since_ms);
  void take_out(const Place& place);

  /// The next one for a worker that serves `tenant`, or everybody where that is empty; it is then no longer
  /// here.
  std::optional<Id> next(std::string_view tenant, std::int64_t now_ms);
  /// When the rate lets the next one go; 0: it does now.
  std::int64_t held_until_ms(std::int64_t now_ms);

  std::size_t size() const { return size_; }
  /// Wall time since which the oldest waits; none: nothing waits.
  std::optional<std::int64_t> oldest_ms() const;

 private:
  struct Waiting {
    Id id = 0;
    std::int64_t since_ms = 0;
  };
  struct Line {
    std::map<std::pair<std::int64_t, std::uint64_t>, Waiting> waiting;  // by −priority and order
    double pass = 0;                                                    // how much of its share it has had
  };
  void refill(std::int64_t now_ms);

  QueueLimits limits_;
  std::map<std::string, Line, std::less<>> lines_;
  std::size_t size_ = 0;
  double pass_ = 0;  // of the line that was served last: where one that comes begins
  double permits_ = 1;
  std::int64_t refilled_ms_ = 0;
};

}  // namespace sandglass::engine::dispatch
