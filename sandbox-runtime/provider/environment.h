// The variables that every command of a sandbox gets from the runtime (V7, V8). Pure.
#pragma once

#include <map>
#include <string>

#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider {

/// PATH, HOME, USER, LANG, TMPDIR, and with a network the proxy and certificate variables; for the JVM, which
/// finds no control group inside, the limits as options. An exec's own variables come on top where allowed.
std::map<std::string, std::string> runtime_environment(const Template& tmpl);

/// True if an exec may set `name`: it is on the template's list and none of the loader's variables.
bool may_set_variable(const Template& tmpl, std::string_view name);

}  // namespace sandglass::sandbox_runtime::provider
