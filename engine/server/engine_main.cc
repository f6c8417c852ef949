// sandglass-engine: started by sandglassd. It takes a uid and a root of its own where it is told to, before
// it reads anything of the data folder (V2). The main thread hears the supervisor and signals; the work is
// done by the threads of the composition root.
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
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>

#include "engine/base/confine.h"
#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/base/folder_owner.h"
#include "engine/base/log.h"
#include "engine/base/short_slices.h"
#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "engine/journal/kafka/cluster/files.h"
#include "engine/journal/kafka/cluster/settings.h"
#include "engine/schedule/zones/zones.h"
#include "engine/server/arguments.h"
#include "engine/server/compose/engine.h"
#include "engine/server/control.h"
#include "engine/server/installation.h"

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

  /// `lost` is written once its descriptor can be read.
  base::Result<Exit> run(server::compose::Engine& engine, const std::optional<base::Error>& lost) {
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
        // Damage that was met at work is there at the next start as well: no start is tried (J7).
        if (lost->code == base::Code::record_damaged) return std::unexpected(*lost);
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

struct Opened {
  base::DataFolder folder;
  server::Config config;
  server::Check separation;
};

namespace brokers = journal::kafka::cluster;

/// The Kafka client's settings, and the secrets that they name, are read with the rights of the start.
base::Result<brokers::Settings> read_kafka_settings(server::KafkaSettings& kafka) {
  auto settings = brokers::read_settings(kafka.bootstrap, kafka.client, kafka.client_file);
  if (!settings) return settings;
  if (auto taken = brokers::take_private_key(*settings); !taken) return std::unexpected(taken.error());
  kafka.client.clear();
  kafka.client_file.clear();
  for (const auto& [name, value] : settings->client) kafka.client.push_back(name + "=" + value);
  return settings;
}

/// What the client will open itself.
std::vector<std::string> kafka_files(const brokers::Settings& settings) {
  std::vector<std::string> files = brokers::files_of(settings);
  files.insert(files.end(), {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl",
                             "/usr/lib/ssl", "/etc/pki", "/usr/share/ca-certificates"});
  return files;
}

/// What of the machine stays in view: time zones, for schedules.
std::vector<std::string> readable_files(const std::optional<brokers::Settings>& kafka) {
  std::vector<std::string> files = kafka ? kafka_files(*kafka) : std::vector<std::string>{};
  files.emplace_back(schedule::zones::kFolder);
  return files;
}

/// Everything that takes the rights with which the process was started, and the end of them (V2).
base::Result<Opened> confine_and_open(const server::ServerArguments& arguments, pid_t parent) {
  auto found = server::find_installation(arguments);
  if (!found) return std::unexpected(found.error());
  std::optional<brokers::Settings> kafka;
  if (found->config.journal == server::JournalKind::kafka || found->config.publish_on_kafka) {
    auto settings = read_kafka_settings(found->config.kafka);
    if (!settings) return std::unexpected(settings.error());
    kafka = std::move(*settings);
  }
  tzset();  // the machine's time zone is not in view later
  const auto confined =
      base::confine({.uid = arguments.uid.value_or(geteuid()),
                     .gid = arguments.gid.value_or(getegid()),
                     .parent = parent,
                     .root = {.readable = readable_files(kafka),
                              .folder = found->folder,
                              .writable = {std::begin(base::kEngineParts), std::end(base::kEngineParts)}},
                     .landlock = false});
  if (!confined) return std::unexpected(confined.error());
  if (kafka) {
    if (auto files = brokers::check_files(*kafka); !files) return std::unexpected(files.error());
  }
  base::SystemRandom random;
  auto folder = confined->own_uid ? base::DataFolder::open_prepared(confined->folder)
                                  : base::DataFolder::open(confined->folder, random);
  if (!folder && confined->own_uid && !confined->private_root) {
    return base::fail(
        base::Code::io_error,
        folder.error().message + "; the engine's uid " + std::to_string(*arguments.uid) +
            " must reach it where it lies, as this root may not mount (CAP_SYS_ADMIN): let others "
            "through the folders above it (chmod o+x), or set processes.first_uid: 0");
  }
  if (!folder) return std::unexpected(folder.error());
  return Opened{std::move(*folder), std::move(found->config),
                server::separation_check(found->separation, *confined)};
}

/// A signal waits, or the supervisor has gone. Takes nothing: the watch will hear what there is.
bool shall_end(int signals, int control) {
  std::array<pollfd, 2> polled = {{{signals, POLLIN, 0}, {control, 0, 0}}};
  return poll(polled.data(), polled.size(), 0) > 0 &&
         (polled[0].revents != 0 || (polled[1].revents & (POLLHUP | POLLERR)) != 0);
}

base::Result<Exit> serve(const server::ServerArguments& arguments, pid_t parent,
                         server::ControlChannel& control) {
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGTERM);
  sigaddset(&ended, SIGINT);
  sigprocmask(SIG_BLOCK, &ended, nullptr);  // before any thread starts
  base::ask_for_short_slices();             // likewise
  const base::UniqueFd signals(signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK));
  const base::UniqueFd lost(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::optional<base::Error> why_lost;

  auto opened = confine_and_open(arguments, parent);
  if (!opened) return std::unexpected(opened.error());
  auto lock = base::FileLock::take(opened->folder.file("lock"));
  if (!lock) return std::unexpected(lock.error());
  SG_CRASH_POINT("engine.folder_locked");
  auto engine = server::compose::Engine::open(
      opened->folder, opened->config, opened->separation, base::UniqueFd(arguments.effect_fd),
      {.lost =
           [fd = lost.get(), &why_lost](const base::Error& error) {
             if (!why_lost) why_lost = error;
             const std::uint64_t one = 1;
             if (write(fd, &one, sizeof one) < 0) std::abort();  // nobody would end this process
           },
       .standing_by =
           [&control] {
             if (control.fd() >= 0 && !control.send("standby"))
               base::log(base::LogLevel::warning, "supervisor_gone", {});
           },
       .ends = [&control, fd = signals.get()] { return shall_end(fd, control.fd()); }});
  if (!engine && engine.error().code == base::Code::cancelled) return Exit::ok;
  if (!engine) return std::unexpected(engine.error());
  SG_CRASH_POINT("engine.before_ready");
  if (control.fd() >= 0) {
    if (auto told = control.send("ready"); !told) return std::unexpected(told.error());
  }
  return Watch(control, signals.get(), lost.get(), opened->config.engine.idle_exit_ms)
      .run(**engine, why_lost);
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = getppid();
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
  auto exit = serve(*arguments, parent, control);
  if (exit) return static_cast<int>(*exit);
  if (control.fd() >= 0) {
    const std::string line =
        "error " + std::to_string(static_cast<unsigned>(exit.error().code)) + " " + exit.error().message;
    if (!control.send(line)) return static_cast<int>(server::report("sandglass-engine", exit.error()));
  }
  return static_cast<int>(server::report("sandglass-engine", exit.error()));
}
