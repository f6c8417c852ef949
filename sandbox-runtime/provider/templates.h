// The templates that every installation has: `default`, all of whose limits are required, and
// `default-rootless`, which does without memory and cpu limits where a machine cannot enforce them for a
// plain user (V10). `network` and `network-rootless` are the same with a way out through the proxy, which
// leads nowhere until the task's destinations are allowed (SPEC N2). The server's configuration may change
// what they do on limits (V9).
#pragma once

#include <map>
#include <string>

#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider {

std::map<std::string, Template> built_in_templates();

}  // namespace sandglass::sandbox_runtime::provider
