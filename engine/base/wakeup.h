// Lets a loop sleep until an adapter has news for its next poll().
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace sandglass::engine::base {

/// Adapters call this, from any thread, when a poll() would find something new. It is quick and may come too
/// often.
using OnNews = std::function<void()>;

/// One sleeper, many wakers. A signal that comes while nobody sleeps ends the next sleep at once.
class Wakeup {
 public:
  void signal() {
    {
      const std::lock_guard lock(mutex_);
      if (signalled_) return;
      signalled_ = true;
    }
    news_.notify_one();
  }
  OnNews on_news() {
    return [this] { signal(); };
  }
  /// Returns at a signal, or after `at_most`.
  void sleep(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, at_most, [this] { return signalled_; });
    signalled_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool signalled_ = false;
};

}  // namespace sandglass::engine::base
