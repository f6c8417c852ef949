#include "engine/base/system_ports.h"

#include <sys/random.h>

#include <chrono>
#include <utility>

#include "engine/base/check.h"

namespace sandglass::engine::base {

WallMs SystemClock::wall_ms() const {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

MonotonicNs SystemClock::monotonic_ns() const {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void SystemRandom::fill(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const auto got = getrandom(out.data(), out.size(), 0);
    SG_CHECK(got > 0, "getrandom");
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

ThreadPool::ThreadPool(unsigned threads) {
  SG_CHECK(threads > 0, "a pool needs a thread");
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(std::move_only_function<void()> closure) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(closure));
  }
  wake_.notify_one();
}

void ThreadPool::work() {
  for (;;) {
    std::move_only_function<void()> closure;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      closure = std::move(queue_.front());
      queue_.pop_front();
    }
    closure();
  }
}

}  // namespace sandglass::engine::base
