// sandglassd.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/base/folder_owner.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/server/arguments.h"
#include "engine/server/installation.h"
#include "engine/server/supervisor.h"

namespace {

using namespace sandglass::engine;

base::Result<base::Exit> serve(const server::ServerArguments& arguments) {
  auto found = server::find_installation(arguments);
  if (!found) return std::unexpected(found.error());
  server::Separation& separation = found->separation;
  const uid_t engine_uid = separation.uid_of(server::Helper::engine);
  base::SystemRandom random;
  auto folder = base::DataFolder::open(found->folder, random, engine_uid);
  if (!folder) return std::unexpected(folder.error());
  auto lock = base::FileLock::take(folder->file("supervisor.lock"));
  if (!lock) return std::unexpected(lock.error());
  if (auto given = base::give_folder(*folder, engine_uid, separation.gid_of(server::Helper::engine)); !given)
    return std::unexpected(given.error());
  if (!separation.by_uid) {
    base::log(base::LogLevel::info, "one_uid",
              {{"reason", separation.reason}, {"remedy", separation.remedy}});
  }
  server::Supervisor supervisor(std::move(*folder), std::move(found->config), std::move(separation),
                                {.config_path = arguments.config,
                                 .settings = arguments.settings,
                                 .exit_when_idle = arguments.exit_when_idle,
                                 .ready_fd = arguments.ready_fd});
  return supervisor.run();
}

}  // namespace

int main(int argc, char** argv) {
  auto arguments = server::parse_arguments(server::ServerProgram::supervisor, argc, argv);
  if (!arguments) return static_cast<int>(arguments.error());
  if (arguments->list_crash_points) {
    // Its own, and those of the engine, which has most.
    for (const auto name : base::crash_points())
      std::printf("%.*s\n", static_cast<int>(name.size()), name.data());
    std::fflush(stdout);
    const std::string engine = server::program_folder() + "/sandglass-engine";
    execl(engine.c_str(), engine.c_str(), "--list-crash-points", nullptr);
    return static_cast<int>(server::report("sandglassd", base::system_error("cannot start", engine, errno)));
  }
  std::signal(SIGPIPE, SIG_IGN);
  base::set_log_process("sandglassd");
  auto exit = serve(*arguments);
  if (exit) return static_cast<int>(*exit);
  if (arguments->ready_fd >= 0) {
    dprintf(arguments->ready_fd, "error %u %s\n", static_cast<unsigned>(exit.error().code),
            exit.error().message.c_str());
  }
  return static_cast<int>(server::report("sandglassd", exit.error()));
}
