// Says when the machine's resolvers change (V16). A program that parses hostile bytes gives up opening files,
// so a small process of its own looks, started before that; it reads one file, writes to one socket, and
// knows nothing else.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::net {

/// Starts that process. The socket gives the text of `path`, a packet for the beginning and for each change
/// (at most 16 KiB; what cannot be read is an empty text). The process ends with the caller, or when the
/// socket is closed. It takes uid and gid, and stays in the root file system that the caller may leave: a
/// file that is replaced can only be followed from there. Call before other threads start.
base::Result<base::UniqueFd> watch_resolvers(const std::string& path, std::int64_t every_ms,
                                             uid_t uid = ::getuid(), gid_t gid = ::getgid());

}  // namespace sandglass::engine::net
