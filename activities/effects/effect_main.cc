// sandglass-effect: performs the engine's effects outside (J16). One process for each incarnation of the
// engine, started by the supervisor with one end of a socketpair. Parses hostile answers, and so has a uid of
// its own and no data folder in view. Any further inherited descriptor, like that of the lock which says that
// this process still lives (V2), is kept open to the end.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "activities/effects/executor.h"
#include "engine/base/confine.h"
#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/resolver_watch.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
namespace codec = engine::net::codec;
using base::LogLevel;

constexpr int exit_usage = 64;
constexpr int exit_config = 78;
constexpr int exit_failed = 1;
constexpr std::int64_t resolvers_looked_at_ms = 2000;
constexpr std::size_t max_memory_bytes = std::size_t{4} << 30;  // bodies and answers of all in flight
constexpr const char* usage = "usage: sandglass-effect --socket-fd N --config-fd N [--uid N --gid N]\n";

struct Options {
  int socket_fd = -1;
  int config_fd = -1;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    char* end = nullptr;
    const long number = std::strtol(argv[i + 1], &end, 10);
    if (*argv[i + 1] == '\0' || *end != '\0' || number < 0) return std::nullopt;
    if (name == "--socket-fd")
      options.socket_fd = static_cast<int>(number);
    else if (name == "--config-fd")
      options.config_fd = static_cast<int>(number);
    else if (name == "--uid")
      options.uid = static_cast<uid_t>(number);
    else if (name == "--gid")
      options.gid = static_cast<gid_t>(number);
    else
      return std::nullopt;
  }
  if (argc % 2 == 0 || options.socket_fd < 0 || options.config_fd < 0) return std::nullopt;
  return options;
}

int fail_with(const base::Error& error, int status) {
  base::log(LogLevel::error, "effect_cannot_start", {{"reason", error.message}});
  return status;
}

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
  if (!settings) return fail_with(settings.error(), exit_config);
  auto allow = codec::to_rules(config.effect().allow());
  if (!allow) return fail_with(allow.error(), exit_config);
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
  ::_exit(status ? 0 : exit_failed);
}

int run(const Options& options, pid_t parent) {
  auto config = codec::read_config(options.config_fd);
  if (!config) return fail_with(config.error(), exit_config);
  ::close(options.config_fd);
  const bool of_machine = codec::name_resolvers(*config);
  ::tzset();
  base::set_process_limits(max_memory_bytes);
  if (const auto dropped = base::drop_to(options.uid.value_or(::getuid()), options.gid.value_or(::getgid()));
      !dropped) {
    return fail_with(dropped.error(), exit_failed);
  }
  if (const auto bound = base::die_with(parent); !bound) return fail_with(bound.error(), exit_failed);
  base::UniqueFd resolver_changes;
  if (of_machine) {
    auto watching = engine::net::watch_resolvers("/etc/resolv.conf", resolvers_looked_at_ms);
    if (!watching) return fail_with(watching.error(), exit_failed);
    resolver_changes = std::move(*watching);
  }
  // Before the first thread starts: Landlock binds only the thread that asks for it, and those it starts
  // later.
  const auto confined = base::confine_files(readable_folders(config->effect().ca_file()));
  if (!confined) return fail_with(confined.error(), exit_failed);
  if (!*confined) base::log(LogLevel::warning, "effect_without_landlock", {});
  return serve(*config, base::UniqueFd(options.socket_fd), std::move(resolver_changes));
}

}  // namespace
}  // namespace sandglass::activities::effects

int main(int argc, char** argv) {
  if (sandglass::engine::base::list_crash_points(argc, argv)) return 0;
  const pid_t parent = ::getppid();
  sandglass::engine::base::set_log_process("effect");
  std::signal(SIGPIPE, SIG_IGN);
  namespace effects = sandglass::activities::effects;
  const auto options = effects::parse(argc, argv);
  if (!options) {
    [[maybe_unused]] const auto written = ::write(2, effects::usage, std::strlen(effects::usage));
    return effects::exit_usage;
  }
  return effects::run(*options, parent);
}
