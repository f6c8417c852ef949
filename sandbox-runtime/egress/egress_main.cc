// sandglass-egress: the sandboxes' proxy. Started by the supervisor; parses hostile HTTP, TLS hellos and DNS,
// and so has a uid of its own, no data folder and no vault in view.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/confine.h"
#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/resolver_watch.h"
#include "sandbox-runtime/egress/egress.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

using engine::base::LogLevel;
using engine::base::UniqueFd;

constexpr int exit_usage = 64;
constexpr int exit_config = 78;
constexpr int exit_failed = 1;
constexpr std::int64_t resolvers_looked_at_ms = 2000;
constexpr std::size_t max_memory_bytes = std::size_t{1} << 30;

constexpr const char* usage =
    "usage: sandglass-egress (--socket PATH | --socket-fd N) --config-fd N [--uid N --gid N] [--host-uid "
    "N]\n";

struct Options {
  std::string socket;
  int socket_fd = -1;
  int config_fd = -1;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<uid_t> host_uid;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    char* end = nullptr;
    const long number = std::strtol(value, &end, 10);
    if (name == "--socket") {
      options.socket = value;
      continue;
    }
    if (*value == '\0' || *end != '\0' || number < 0) return std::nullopt;
    if (name == "--socket-fd")
      options.socket_fd = static_cast<int>(number);
    else if (name == "--config-fd")
      options.config_fd = static_cast<int>(number);
    else if (name == "--uid")
      options.uid = static_cast<uid_t>(number);
    else if (name == "--gid")
      options.gid = static_cast<gid_t>(number);
    else if (name == "--host-uid")
      options.host_uid = static_cast<uid_t>(number);
    else
      return std::nullopt;
  }
  const bool one_socket = options.socket.empty() == (options.socket_fd >= 0);
  if (argc % 2 == 0 || !one_socket || options.config_fd < 0) return std::nullopt;
  return options;
}

int fail_with(const engine::base::Error& error, int status) {
  engine::base::log(LogLevel::error, "egress_cannot_start", {{"reason", error.message}});
  return status;
}

int run(const Options& options, pid_t parent) {
  auto config = engine::net::codec::read_config(options.config_fd);
  if (!config) return fail_with(config.error(), exit_config);
  ::close(options.config_fd);
  UniqueFd control(options.socket_fd);
  if (!options.socket.empty()) {
    auto listening = listen_on_path(options.socket);
    if (!listening) return fail_with(listening.error(), exit_failed);
    control = std::move(*listening);
  }
  engine::base::set_process_limits(max_memory_bytes);
  const uid_t starter = ::getuid();
  const uid_t uid = options.uid.value_or(starter);
  if (const auto dropped = engine::base::drop_to(uid, options.gid.value_or(::getgid())); !dropped) {
    return fail_with(dropped.error(), exit_failed);
  }
  if (const auto bound = engine::base::die_with(parent); !bound) return fail_with(bound.error(), exit_failed);
  // Before the first thread starts: Landlock binds only the thread that asks for it, and those it starts
  // later.
  UniqueFd resolver_changes;
  if (engine::net::codec::name_resolvers(*config)) {
    auto watching = engine::net::watch_resolvers("/etc/resolv.conf", resolvers_looked_at_ms);
    if (!watching) return fail_with(watching.error(), exit_failed);
    resolver_changes = std::move(*watching);
  }
  const auto confined = engine::base::confine_files({});
  if (!confined) return fail_with(confined.error(), exit_failed);
  auto egress = Egress::make(*config, std::move(control), {0, starter, options.host_uid.value_or(starter)},
                             std::move(resolver_changes));
  if (!egress) return fail_with(egress.error(), exit_config);
  engine::base::log(LogLevel::info, "egress_ready", {{"landlock", *confined}});
  (*egress)->run();
  return 0;
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress

int main(int argc, char** argv) {
  if (sandglass::engine::base::list_crash_points(argc, argv)) return 0;
  const pid_t parent = ::getppid();
  sandglass::engine::base::set_log_process("egress");
  std::signal(SIGPIPE, SIG_IGN);
  const auto options = sandglass::sandbox_runtime::egress::parse(argc, argv);
  if (!options) {
    [[maybe_unused]] const auto written = ::write(2, sandglass::sandbox_runtime::egress::usage,
                                                  std::strlen(sandglass::sandbox_runtime::egress::usage));
    return sandglass::sandbox_runtime::egress::exit_usage;
  }
  return sandglass::sandbox_runtime::egress::run(*options, parent);
}
