// Which uids the server's processes get, and what keeps them apart (V2). The supervisor decides once; an
// engine that was given none of its own finds the same reason for `doctor`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/confine.h"
#include "engine/server/config.h"

namespace sandglass::engine::server {

/// Their places in the range that begins at processes.first_uid.
enum class Helper : std::uint32_t { egress = 0, effect = 1, engine = 2 };
inline constexpr std::uint32_t kHelpers = 3;

struct Separation {
  bool by_uid = false;
  std::uint32_t first_uid = 0;
  std::string reason;  // why not by uid
  std::string remedy;

  /// The helper's, else that of this process.
  uid_t uid_of(Helper helper) const;
  gid_t gid_of(Helper helper) const;
  /// --uid N --gid N, or nothing.
  std::vector<std::string> arguments_for(Helper helper) const;
};

/// By uid: as root, with a range that exists here and the capabilities that it takes.
Separation find_separation(const ProcessSettings& settings);

/// A line of `doctor`.
struct Check {
  std::string name;
  std::string verdict;  // works, weaker, missing
  std::string detail;
};

/// What keeps the processes apart, as seen by an engine that has confined itself.
Check separation_check(const Separation& separation, const base::Confinement& confinement);

}  // namespace sandglass::engine::server
