// The real clock, the kernel's random generator, and a fixed pool of threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/base/ports.h"

namespace sandglass::engine::base {

class SystemClock final : public Clock {
 public:
  WallMs wall_ms() const override;
  MonotonicNs monotonic_ns() const override;
};

class SystemRandom final : public Random {
 public:
  void fill(std::span<std::uint8_t> out) override;
};

/// A fixed number of threads that take closures first in, first out. The destructor finishes what was
/// accepted.
class ThreadPool final : public TaskRunner {
 public:
  explicit ThreadPool(unsigned threads);
  ~ThreadPool() override;
  void run(std::move_only_function<void()> closure) override;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::move_only_function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sandglass::engine::base
