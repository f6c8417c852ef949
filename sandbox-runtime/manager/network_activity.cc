// sandbox.network: opens a leased sandbox's way out as far as the operator lets a task ask for it (SPEC N2).
#include "sandbox-runtime/manager/answers.h"
#include "sandbox-runtime/manager/parts.h"

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kMaxDestinations = 64;

bool read_destination(const Json& item, provider::AllowedDestination& out) {
  if (!item.is_object() || !item.contains("host") || !item["host"].is_string()) return false;
  out.host = item["host"].get<std::string>();
  for (const Json& port : item.value("ports", Json::array())) {
    if (!port.is_number_unsigned() || port.get<std::uint64_t>() > 65535) return false;
    out.ports.push_back(port.get<std::uint32_t>());
  }
  for (const Json& method : item.value("methods", Json::array())) {
    if (!method.is_string()) return false;
    out.methods.push_back(method.get<std::string>());
  }
  return true;
}

void open_network(const Parts& parts, const Json& input, core::ActivityDone answer) {
  const Json& wanted = input.contains("allow") ? input["allow"] : Json();
  if (!wanted.is_array() || wanted.size() > kMaxDestinations) {
    return answer(
        invalid("\"allow\" must be a list of at most " + std::to_string(kMaxDestinations) + " destinations"));
  }
  std::vector<provider::AllowedDestination> destinations;
  for (const Json& item : wanted) {
    provider::AllowedDestination destination;
    if (!read_destination(item, destination)) return answer(invalid("a destination is malformed"));
    const base::Status permitted =
        parts->check_destination
            ? parts->check_destination(destination)
            : base::Status(base::fail(base::Code::policy_denied, "no sandbox may have a network here"));
    if (!permitted) return answer(failed(permitted.error()));
    destinations.push_back(std::move(destination));
  }
  const std::size_t count = destinations.size();
  parts->provider.allow(ref_of(input), std::move(destinations),
                        [count, answer = std::move(answer)](base::Result<void> allowed) mutable {
                          answer(allowed ? done({{"destinations", count}}) : failed(allowed.error()));
                        });
}

}  // namespace

void register_network_activity(core::ActivityRegistry& registry, const Parts& parts) {
  registry.add("sandbox.network", make_activity([parts](const core::ActivityCall&, const Json& input,
                                                        core::ActivityDone answer) {
                 open_network(parts, input, std::move(answer));
               }));
}

}  // namespace sandglass::sandbox_runtime::manager
