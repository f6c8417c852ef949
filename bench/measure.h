// What the benches reckon with. Thread rule: pure, but for the clock.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace sandglass::bench {

using SteadyClock = std::chrono::steady_clock;

inline double since_us(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

inline double since_ms(SteadyClock::time_point start) {
  return since_us(start) / 1e3;
}

/// Processor time of this process so far, all threads together.
inline double cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return micros(usage.ru_utime) + micros(usage.ru_stime);
}

/// The value below which that share of all lies; 0 of none.
inline double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace sandglass::bench
