#include "engine/server/arguments.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "engine/base/text.h"
#include "engine/server/config.h"

namespace sandglass::engine::server {

std::expected<ServerArguments, base::Exit> parse_arguments(ServerProgram program, int argc, char** argv) {
  ServerArguments arguments;
  const bool supervisor = program == ServerProgram::supervisor;
  CLI::App app(supervisor ? "The Sandglass server: starts and supervises the engine and its helpers."
                          : "The Sandglass engine; started by sandglassd.");
  app.name(supervisor ? "sandglassd" : "sandglass-engine");
  app.add_option("--data", arguments.data, "data folder (default: $SANDGLASS_DATA, else one by user)");
  app.add_option("--config", arguments.config,
                 "configuration file (default: sandglass.yaml in the data folder)");
  app.add_option("--set", arguments.settings,
                 "key=value that wins over the configuration file; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--list-crash-points", arguments.list_crash_points,
               "print the names of the crash points and end");
  if (supervisor) {
    app.add_flag("--exit-when-idle", arguments.exit_when_idle,
                 "end when no run is open and no client is connected");
    app.add_option("--ready-fd", arguments.ready_fd,
                   "descriptor that gets one line: ready, or error CODE MESSAGE");
  } else {
    app.add_option("--control-fd", arguments.control_fd, "socket of the supervisor");
    app.add_option("--effect-fd", arguments.effect_fd, "socket of sandglass-effect");
    app.add_option("--uid", arguments.uid,
                   "uid to take, as root, before anything of the data folder is read");
    app.add_option("--gid", arguments.gid, "gid to take; goes with --uid")->needs("--uid");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    app.exit(e);
    return std::unexpected(base::Exit::ok);
  } catch (const CLI::ParseError& e) {
    return std::unexpected(report(app.get_name().c_str(), {base::Code::usage, e.what()}));
  }
  if (const char* set = std::getenv("SANDGLASS_SET"); set != nullptr) {
    auto settings = split_settings(set);
    arguments.settings.insert(arguments.settings.begin(), settings.begin(), settings.end());
  }
  return arguments;
}

base::Exit report(const char* program, const base::Error& error) {
  std::fprintf(stderr, "%s: error %u: %s\n", program, static_cast<unsigned>(error.code),
               base::escape_for_terminal(error.message).c_str());
  return base::exit_for(error.code);
}

}  // namespace sandglass::engine::server
