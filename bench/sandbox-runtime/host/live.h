// What the benches of this folder share: one host for all of them, and small helpers.
#pragma once

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {

using bench::percentile;
using bench::since_ms;
using bench::since_us;
using bench::SteadyClock;

struct Live {
  HostRig rig;
  provider::SandboxRef sandbox = rig.make();
};

/// Gone with the process.
inline Live& live() {
  static Live instance;
  return instance;
}

inline provider::ExecRequest command(HostRig& rig, std::vector<std::string> argv) {
  auto request = rig.shell("");
  request.argv = std::move(argv);
  return request;
}

inline void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// A line of a file under /proc that begins with `key`, as a number. 0 if there is none.
inline std::uint64_t number_after(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  return 0;
}

}  // namespace sandglass::sandbox_runtime::host
