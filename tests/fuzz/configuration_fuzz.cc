// The configuration file: settings from the environment's form, a NUL byte, the file.
#include <string>

#include "engine/base/check.h"
#include "engine/server/config.h"
#include "engine/server/network_config.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(configuration) {
  using namespace sandglass::engine::server;
  const auto cut = input.find('\0');
  const auto text = cut == input.npos ? input : input.substr(cut + 1);
  const auto settings = cut == input.npos ? std::vector<std::string>{} : split_settings(input.substr(0, cut));
  const auto config = parse_config(text, "sandglass.yaml", settings);
  if (!config) {
    SG_CHECK(config.error().message.find("sandglass.yaml") != std::string::npos || !settings.empty(),
             "a refusal does not name the file: " + config.error().message);
    return;
  }
  (void)network_config_bytes(*config);
}
