// What supervisor and engine know of an installation before they open its data folder: where it is, its
// configuration, and what keeps its processes apart. Both find it here, and so find the same.
//
// Thread rule: any thread. Errors: usage, config_invalid, file_unreadable.
#pragma once

#include <string>

#include "engine/base/result.h"
#include "engine/server/arguments.h"
#include "engine/server/config.h"
#include "engine/server/separation.h"

namespace sandglass::engine::server {

struct Installation {
  std::string folder;  // path of the data folder
  Config config;
  Separation separation;
};

base::Result<Installation> find_installation(const ServerArguments& arguments);

}  // namespace sandglass::engine::server
