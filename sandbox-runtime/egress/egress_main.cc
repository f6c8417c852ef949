// sandglass-egress: the sandboxes' proxy. Started by the supervisor; parses hostile HTTP, TLS hellos and DNS,
// and so has a uid of its own, no data folder and no vault in view.
#include <unistd.h>

#include <ctime>
#include <string>

#include "engine/base/confine.h"
#include "engine/base/helper_options.h"
#include "engine/base/log.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/resolver_watch.h"
#include "sandbox-runtime/egress/egress.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace base = engine::base;
using base::HelperOptions;

constexpr std::int64_t resolvers_looked_at_ms = 2000;
constexpr std::size_t max_memory_bytes = std::size_t{1} << 30;

int run(const HelperOptions& options);
const base::HelperProgram program = {
    .name = "egress",
    .usage =
        "usage: sandglass-egress (--socket PATH | --socket-fd N) --config-fd N [--uid N --gid N] "
        "[--host-uid N]\n",
    .options = {"--socket", "--socket-fd", "--config-fd", "--uid", "--gid", "--host-uid"},
    .is_complete =
        [](const HelperOptions& given) {
          return given.socket.empty() == (given.socket_fd >= 0) && given.config_fd >= 0;
        },
    .run = run};

int run(const HelperOptions& options) {
  auto config = engine::net::codec::read_config(options.config_fd);
  if (!config) return helper_cannot_start(program, config.error(), base::kHelperConfig);
  ::close(options.config_fd);
  base::UniqueFd control(options.socket_fd);
  if (!options.socket.empty()) {
    auto listening = listen_on_path(options.socket);
    if (!listening) return helper_cannot_start(program, listening.error(), base::kHelperFailed);
    control = std::move(*listening);
  }
  base::set_process_limits(max_memory_bytes);
  base::UniqueFd resolver_changes;
  if (engine::net::codec::name_resolvers(*config)) {
    auto watching = engine::net::watch_resolvers("/etc/resolv.conf", resolvers_looked_at_ms,
                                                 options.wanted_uid(), options.wanted_gid());
    if (!watching) return helper_cannot_start(program, watching.error(), base::kHelperFailed);
    resolver_changes = std::move(*watching);
  }
  ::tzset();
  const uid_t starter = ::getuid();
  // Before the first thread starts: Landlock binds only the thread that asks for it, and those it starts
  // later.
  const auto confined = base::confine(
      {.uid = options.wanted_uid(), .gid = options.wanted_gid(), .parent = options.parent, .root = {}});
  if (!confined) return helper_cannot_start(program, confined.error(), base::kHelperFailed);
  auto egress = Egress::make(*config, std::move(control), {0, starter, options.host_uid.value_or(starter)},
                             std::move(resolver_changes));
  if (!egress) return helper_cannot_start(program, egress.error(), base::kHelperConfig);
  base::log(base::LogLevel::info, "egress_ready", {{"landlock", confined->landlock}});
  (*egress)->run();
  return 0;
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress

int main(int argc, char** argv) {
  return sandglass::engine::base::run_helper(sandglass::sandbox_runtime::egress::program, argc, argv);
}
