#include "sandbox-runtime/provider/environment.h"

#include <algorithm>

#include "sandbox-runtime/provider/launcher.h"

namespace sandglass::sandbox_runtime::provider {

std::map<std::string, std::string> runtime_environment(const Template& tmpl) {
  const std::uint64_t processors = std::max<std::uint64_t>(1, (tmpl.limits.cpu.value + 999) / 1000);
  std::map<std::string, std::string> env = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", "/home/sandbox"},
      {"USER", "sandbox"},
      {"LOGNAME", "sandbox"},
      {"SHELL", "/bin/sh"},
      {"LANG", "C.UTF-8"},
      {"TMPDIR", "/tmp"},
      {"JDK_JAVA_OPTIONS", "-XX:MaxRAM=" + std::to_string(tmpl.limits.memory.value) +
                               " -XX:ActiveProcessorCount=" + std::to_string(processors)},
  };
  if (!tmpl.network) return env;
  const std::string proxy = "http://127.0.0.1:" + std::to_string(kProxyPort);
  for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}) env[name] = proxy;
  for (const char* name : {"NO_PROXY", "no_proxy"}) env[name] = "";
  for (const char* name : {"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
                           "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}) {
    env[name] = "/etc/ssl/certs/ca-certificates.crt";
  }
  env["NPM_CONFIG_GLOBALCONFIG"] = "/etc/npmrc";  // npm looks beside its program, below /usr
  return env;
}

bool may_set_variable(const Template& tmpl, std::string_view name) {
  return !name.starts_with("LD_") && std::ranges::find(tmpl.env_allow, name) != tmpl.env_allow.end();
}

}  // namespace sandglass::sandbox_runtime::provider
