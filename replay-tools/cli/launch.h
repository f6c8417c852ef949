// Starts sandglassd for `sandglass run` when nobody answers: in a session of its own, so that Ctrl-C does not
// reach it; it ends itself when it has nothing to do.
#pragma once

#include <string>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::replay_tools::cli {

struct LaunchOptions {
  std::string data;
  std::string config;
  std::vector<std::string> settings;
};

/// Returns when the engine answers. Errors: what sandglassd reports (its log is <data>/log/sandglassd.log).
engine::base::Status launch_server(const LaunchOptions& options);

/// Becomes sandglassd in the foreground; returns only on failure.
engine::base::Error become_server(const LaunchOptions& options);

}  // namespace sandglass::replay_tools::cli
