// An epoll loop with timers and closures from other threads. Everything but post() belongs to the loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::frames {

using engine::base::MonotonicNs;

class Loop {
 public:
  using WatchId = std::uint64_t;
  using TimerId = std::uint64_t;
  using Ready = std::move_only_function<void(std::uint32_t events)>;

  explicit Loop(const engine::base::Clock& clock);

  /// Calls `ready` while the descriptor, which the caller keeps open until unwatch(), has one of `events`.
  WatchId watch(int fd, std::uint32_t events, Ready ready);
  void change(WatchId id, std::uint32_t events);
  /// Also legal from within the callback itself. 0 is ignored.
  void unwatch(WatchId id);

  /// Calls once after `delay_ms`, at the latest in ten years.
  TimerId after(std::int64_t delay_ms, std::move_only_function<void()> call);
  void cancel(TimerId id);

  /// Runs `call` on the loop's thread soon. Thread rule: any thread.
  void post(std::move_only_function<void()> call);

  /// Runs until stop().
  void run();
  /// One pass: waits at most `wait_ms` (-1: without an end) for a descriptor or a call, then does what is
  /// ready and due. run() makes one after another.
  void turn(int wait_ms);
  void stop() { stopped_ = true; }
  MonotonicNs now() const { return clock_.monotonic_ns(); }
  const engine::base::Clock& clock() const { return clock_; }

 private:
  struct Watch {
    int fd;
    Ready ready;
  };
  void run_posted();
  void run_timers();
  int wait_ms() const;

  const engine::base::Clock& clock_;
  engine::base::UniqueFd epoll_, wake_;
  bool stopped_ = false;
  std::uint64_t last_id_ = 0;
  std::unordered_map<WatchId, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<MonotonicNs, TimerId>, std::move_only_function<void()>> timers_;
  std::unordered_map<TimerId, MonotonicNs> timer_times_;
  std::mutex mutex_;
  std::vector<std::move_only_function<void()>> posted_;
};

}  // namespace sandglass::sandbox_runtime::frames
