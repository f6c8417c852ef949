// sandglass-effect: performs the engine's effects outside (J16). One process for each incarnation of the
// engine, started by the supervisor with one end of a socketpair. Parses hostile answers, and so has a uid of
// its own and no data folder in view. Any further inherited descriptor, like that of the lock which says that
// this process still lives (V2), is kept open to the end.
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "activities/effects/executor.h"
#include "engine/base/confine.h"
#include "engine/base/helper_options.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/resolver_watch.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
namespace codec = engine::net::codec;
using base::HelperOptions;
using base::LogLevel;

constexpr std::int64_t resolvers_looked_at_ms = 2000;
constexpr std::size_t max_memory_bytes = std::size_t{4} << 30;  // bodies and answers of all in flight

int run(const HelperOptions& options);
const base::HelperProgram program = {
    .name = "effect",
    .usage = "usage: sandglass-effect --socket-fd N --config-fd N [--uid N --gid N]\n",
    .options = {"--socket-fd", "--config-fd", "--uid", "--gid"},
    .is_complete = [](const HelperOptions& given) { return given.socket_fd >= 0 && given.config_fd >= 0; },
    .run = run};

/// Where the machine keeps its public certificates, and OpenSSL's configuration.
std::vector<std::string> readable_folders(const std::string& ca_file) {
  std::vector<std::string> folders = {"/etc/ssl", "/etc/pki", "/usr/lib/ssl", "/usr/share/ca-certificates",
                                      "/usr/local/share/ca-certificates"};
  if (const std::size_t slash = ca_file.rfind('/'); slash != std::string::npos && slash > 0) {
    folders.push_back(ca_file.substr(0, slash));
  }
  return folders;
}

int serve(codec::pb::NetworkConfig& config, base::UniqueFd socket, base::UniqueFd resolver_changes) {
  auto settings = codec::to_settings(config);
  if (!settings) return helper_cannot_start(program, settings.error(), base::kHelperConfig);
  auto allow = codec::to_rules(config.effect().allow());
  if (!allow) return helper_cannot_start(program, allow.error(), base::kHelperConfig);
  ExecutorLimits limits;
  if (config.effect().max_in_flight() > 0) limits.max_in_flight = config.effect().max_in_flight();
  if (config.effect().max_per_target() > 0) limits.max_per_target = config.effect().max_per_target();
  base::SystemClock clock;
  start_http();
  const engine::net::Gate gate(std::move(*settings), clock);
  engine::net::Dialer dialer(gate, clock, std::move(resolver_changes));
  const EffectWorld world{
      gate,
      dialer,
      clock,
      {std::move(*allow), !config.effect().public_targets_refused(), config.effect().ca_file()}};
  Executor executor(world, limits, std::move(socket));
  base::log(LogLevel::info, "effect_ready", {{"max_in_flight", limits.max_in_flight}});
  const auto status = executor.run();
  if (!status) base::log(LogLevel::error, "effect_ends", {{"reason", status.error().message}});
  // The engine has gone, or nothing can be trusted any more: attempts under way end with this process, now.
  ::_exit(status ? 0 : base::kHelperFailed);
}

int run(const HelperOptions& options) {
  auto config = codec::read_config(options.config_fd);
  if (!config) return helper_cannot_start(program, config.error(), base::kHelperConfig);
  ::close(options.config_fd);
  base::UniqueFd resolver_changes;
  if (codec::name_resolvers(*config)) {
    auto watching = engine::net::watch_resolvers("/etc/resolv.conf", resolvers_looked_at_ms,
                                                 options.wanted_uid(), options.wanted_gid());
    if (!watching) return helper_cannot_start(program, watching.error(), base::kHelperFailed);
    resolver_changes = std::move(*watching);
  }
  ::tzset();
  base::set_process_limits(max_memory_bytes);
  // Before the first thread starts: Landlock binds only the thread that asks for it, and those it starts
  // later.
  const auto confined = base::confine({.uid = options.wanted_uid(),
                                       .gid = options.wanted_gid(),
                                       .parent = options.parent,
                                       .root = {.readable = readable_folders(config->effect().ca_file())}});
  if (!confined) return helper_cannot_start(program, confined.error(), base::kHelperFailed);
  if (!confined->landlock) base::log(LogLevel::warning, "effect_without_landlock", {});
  return serve(*config, base::UniqueFd(options.socket_fd), std::move(resolver_changes));
}

}  // namespace
}  // namespace sandglass::activities::effects

int main(int argc, char** argv) {
  return sandglass::engine::base::run_helper(sandglass::activities::effects::program, argc, argv);
}
