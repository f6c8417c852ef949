// The time zones of this machine (package tzdata), read by Howard Hinnant's date library.
// Thread rule: any thread. The first call reads the list of zones, the first use of a zone its file. The data
// is what it was then: after an update of tzdata the engine is restarted. Errors: invalid_argument for a name
// that is no zone, io_error if the machine has no zones.
#pragma once

#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/schedule/occurrences.h"

namespace sandglass::engine::schedule::zones {

/// Where the zones lie; a process that sees only parts of the machine needs it.
inline constexpr const char* kFolder = "/usr/share/zoneinfo";

/// By IANA name, as "Europe/Berlin"; an empty name is UTC.
base::Result<std::shared_ptr<const Zone>> find_zone(const std::string& name);

/// As "2026a"; "unknown" if the machine does not say.
const std::string& zone_data_version();

}  // namespace sandglass::engine::schedule::zones
