// Ports to the machine: time, randomness, threads. Real adapters are in system_ports.h; tests bring their
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace sandglass::engine::base {

/// Milliseconds since 1970-01-01 UTC. A machine's own steps when it is set; the engine's (steady_clock.h)
/// does not.
using WallMs = std::int64_t;
/// Nanoseconds of a clock that never goes back within one process; its zero has no meaning.
using MonotonicNs = std::int64_t;

/// Thread rule: callable from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallMs wall_ms() const = 0;
  virtual MonotonicNs monotonic_ns() const = 0;
  /// What a clock on the wall shows: for deadlines that people were told.
  virtual WallMs calendar_ms() const { return wall_ms(); }
};

/// Thread rule: callable from any thread. Real adapter: the kernel's generator.
class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::uint8_t> out) = 0;
};

/// Runs closures somewhere else: a thread pool in production, inside poll() in simulation. Closures must not
/// block for ever; a closure that was accepted is run exactly once unless the runner is destroyed first.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  virtual void run(std::move_only_function<void()> closure) = 0;
};

}  // namespace sandglass::engine::base
