#include "sandbox-runtime/frames/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/base/check.h"

namespace sandglass::sandbox_runtime::frames {

namespace {
/// What is asked for later than this is not waited for by anybody (ten years).
constexpr std::int64_t kLongestDelayMs = std::int64_t{10} * 366 * 24 * 3600 * 1000;
}  // namespace

Loop::Loop(const engine::base::Clock& clock)
    : clock_(clock), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SG_CHECK(epoll_ && wake_, "epoll and eventfd are needed");
  epoll_event event{EPOLLIN, {.u64 = 0}};
  SG_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0, "epoll_ctl");
}

Loop::WatchId Loop::watch(int fd, std::uint32_t events, Ready ready) {
  const WatchId id = ++last_id_;
  watches_[id] = std::make_shared<Watch>(fd, std::move(ready));
  epoll_event event{events, {.u64 = id}};
  SG_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "a descriptor cannot be watched");
  return id;
}

void Loop::change(WatchId id, std::uint32_t events) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  epoll_event event{events, {.u64 = id}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second->fd, &event);
}

void Loop::unwatch(WatchId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->fd, nullptr);
  watches_.erase(found);
}

Loop::TimerId Loop::after(std::int64_t delay_ms, std::move_only_function<void()> call) {
  const TimerId id = ++last_id_;
  const MonotonicNs at = now() + std::clamp<std::int64_t>(delay_ms, 0, kLongestDelayMs) * 1'000'000;
  timers_.emplace(std::pair(at, id), std::move(call));
  timer_times_[id] = at;
  return id;
}

void Loop::cancel(TimerId id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void Loop::post(std::move_only_function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(call));
  }
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void Loop::run_posted() {
  std::vector<std::move_only_function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(posted_);
  }
  for (auto& call : calls) call();
}

void Loop::run_timers() {
  const MonotonicNs time = now();
  while (!timers_.empty() && timers_.begin()->first.first <= time) {
    auto due = timers_.extract(timers_.begin());
    timer_times_.erase(due.key().second);
    due.mapped()();
  }
}

int Loop::wait_ms() const {
  if (timers_.empty()) return -1;
  const MonotonicNs left = timers_.begin()->first.first - now();
  return left <= 0 ? 0 : static_cast<int>(std::min<MonotonicNs>(left / 1'000'000 + 1, 60'000));
}

void Loop::run() {
  while (!stopped_) turn(wait_ms());
}

void Loop::turn(int wait_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms);
  SG_CHECK(count >= 0 || errno == EINTR, "epoll_wait failed");
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t watch_id = event.data.u64;  // a copy: the kernel's struct is packed
    if (watch_id == 0) {
      std::uint64_t ignored;
      (void)!read(wake_.get(), &ignored, sizeof ignored);
      continue;
    }
    const auto found = watches_.find(watch_id);
    if (found == watches_.end()) continue;
    const std::shared_ptr<Watch> watch = found->second;  // it may unwatch itself
    watch->ready(event.events);
  }
  run_posted();
  run_timers();
}

}  // namespace sandglass::sandbox_runtime::frames
