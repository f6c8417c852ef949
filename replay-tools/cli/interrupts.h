// Ctrl-C while a run is followed: once cancels, twice detaches. SIGINT and SIGTERM are blocked in every
// thread and taken by one of our own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <thread>

#include "engine/base/unique_fd.h"

namespace sandglass::replay_tools::cli {

class Interrupts {
 public:
  /// Call before any thread starts, and only where a run is followed.
  static void block();

  /// `on_interrupt(n)` is called on a thread of its own for the n-th signal, from 1.
  explicit Interrupts(std::function<void(int)> on_interrupt);
  ~Interrupts();

  /// Readable once something was interrupted: for waits on a terminal.
  int fd() const { return event_.get(); }
  int count() const { return count_; }

 private:
  void run();

  std::function<void(int)> on_interrupt_;
  engine::base::UniqueFd signals_;
  engine::base::UniqueFd event_;
  engine::base::UniqueFd end_;
  std::atomic<int> count_{0};
  std::thread thread_;
};

}  // namespace sandglass::replay_tools::cli
