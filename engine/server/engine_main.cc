// sandglass-engine: started by sandglassd. The main thread hears the supervisor and signals; the work is done
// by the threads of the composition root.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "engine/server/arguments.h"
#include "engine/server/compose/engine.h"
#include "engine/server/config.h"
#include "engine/server/control.h"

namespace {

using namespace sandglass::engine;
using base::Exit;

constexpr int kLongestTickMs = 500;
constexpr std::int64_t kStopGraceMs = 500;  // follow streams never end by themselves
constexpr std::int64_t kLostGraceMs = 200;

/// Hears supervisor and signals until the engine shall end.
class Watch {
 public:
  Watch(server::ControlChannel& control, int signals, int lost, std::int64_t idle_ms)
      : control_(control), signals_(signals), lost_(lost), idle_ms_(idle_ms) {}

  Exit run(server::compose::Engine& engine) {
    base::SystemClock clock;
    std::int64_t busy_at = clock.monotonic_ns();
    for (;;) {
      std::array<pollfd, 3> polled = {
          {{signals_, POLLIN, 0}, {lost_, POLLIN, 0}, {control_.fd(), POLLIN, 0}}};
      poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(idle_ms_, kLongestTickMs)));
      if (polled[0].revents != 0) {
        engine.close(kStopGraceMs);
        return Exit::ok;
      }
      if (polled[1].revents != 0) {  // J6: callers have their answer; nothing of this handle is used again
        engine.close(kLostGraceMs);
        return Exit::internal;
      }
      if (polled[2].revents != 0 && !hear(engine)) return Exit::ok;
      if (!engine.idle()) {
        busy_at = clock.monotonic_ns();
      } else if (clock.monotonic_ns() - busy_at > idle_ms_ * 1'000'000 && control_.fd() >= 0) {
        busy_at = clock.monotonic_ns();
        if (!control_.send("idle")) return Exit::ok;
      }
    }
  }

 private:
  /// False: the supervisor has gone.
  bool hear(server::compose::Engine& engine) {
    for (;;) {
      auto message = control_.receive();
      if (!message) return false;
      if (!*message) return true;
      if ((*message)->text == "effect" && (*message)->fd) engine.attach_effect(std::move((*message)->fd));
    }
  }

  server::ControlChannel& control_;
  int signals_;
  int lost_;
  std::int64_t idle_ms_;
};

base::Result<Exit> serve(const server::ServerArguments& arguments, server::ControlChannel& control) {
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGTERM);
  sigaddset(&ended, SIGINT);
  sigprocmask(SIG_BLOCK, &ended, nullptr);  // before any thread starts
  const base::UniqueFd signals(signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK));
  const base::UniqueFd lost(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

  auto path = base::choose_data_folder(arguments.data);
  if (!path) return std::unexpected(path.error());
  base::SystemRandom random;
  auto folder = base::DataFolder::open(*path, random);
  if (!folder) return std::unexpected(folder.error());
  const bool named = !arguments.config.empty();
  auto config =
      server::load_config(named ? arguments.config : folder->config_file(), named, arguments.settings);
  if (!config) return std::unexpected(config.error());
  auto lock = base::FileLock::take(folder->file("lock"));
  if (!lock) return std::unexpected(lock.error());
  SG_CRASH_POINT("engine.folder_locked");
  auto engine = server::compose::Engine::open(*folder, *config, base::UniqueFd(arguments.effect_fd),
                                              [fd = lost.get()](const base::Error&) {
                                                const std::uint64_t one = 1;
                                                if (write(fd, &one, sizeof one) < 0)
                                                  std::abort();  // nobody would end this process
                                              });
  if (!engine) return std::unexpected(engine.error());
  SG_CRASH_POINT("engine.before_ready");
  if (control.fd() >= 0) {
    if (auto told = control.send("ready"); !told) return std::unexpected(told.error());
  }
  return Watch(control, signals.get(), lost.get(), config->engine.idle_exit_ms).run(**engine);
}

}  // namespace

int main(int argc, char** argv) {
  auto arguments = server::parse_arguments(server::ServerProgram::engine, argc, argv);
  if (!arguments) return static_cast<int>(arguments.error());
  if (arguments->list_crash_points) {
    for (const auto name : base::crash_points())
      std::printf("%.*s\n", static_cast<int>(name.size()), name.data());
    return 0;
  }
  umask(0077);
  std::signal(SIGPIPE, SIG_IGN);
  base::set_log_process("engine");
  server::ControlChannel control{base::UniqueFd(arguments->control_fd)};
  auto exit = serve(*arguments, control);
  if (exit) return static_cast<int>(*exit);
  if (control.fd() >= 0) {
    const std::string line =
        "error " + std::to_string(static_cast<unsigned>(exit.error().code)) + " " + exit.error().message;
    if (!control.send(line)) return static_cast<int>(server::report("sandglass-engine", exit.error()));
  }
  return static_cast<int>(server::report("sandglass-engine", exit.error()));
}
