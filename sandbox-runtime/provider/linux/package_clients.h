// What the generated /etc tells package managers (V8): the operator's certificate bundle, the proxy, and the
// registries that the machine's own clients use. Of those clients' configuration only the values of an
// allow-list of keys are taken, and only addresses that cannot hold a secret: a registry with user
// information, a query, a
// "$" or a path that looks like a token is left out, with a warning. Thread rule: any thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// An http or https address that may be shown inside; false for everything that might carry a secret.
bool is_plain_registry(std::string_view address);

/// Whole public certificates of a bundle, each once, and nothing else of it (no key, no remark).
std::string certificates_of(std::string_view bundle);

/// What of the machine is read: environment variables and files by absolute path. Injected, so that tests
/// need no machine.
struct MachineSource {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::function<std::optional<std::string>(const std::string& path)> file;
  /// Names in a folder, sorted.
  std::function<std::vector<std::string>(const std::string& path)> names;
};
MachineSource this_machine();

struct PackageClients {
  std::map<std::string, std::string> files;  // path below the new root ("etc/npmrc") → content
  std::vector<std::string> left_out;         // "npm: registry", never the value
};
PackageClients package_clients(const MachineSource& machine);

/// The machine's bundle and those that the server's environment names (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS …).
std::string operator_certificates(const MachineSource& machine);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
