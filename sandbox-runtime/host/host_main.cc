// Program sandglass-host.
//   sandglass-host --data FOLDER [--engine-uid N] [--grace-ms N]
// Sockets, records and helper programs are found by the data folder and this program's own folder. Everything
// of the host lies in `host` of the data folder, which the engine cannot write: the host may be root.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "sandbox-runtime/host/host.h"
#include "sandbox-runtime/provider/linux/linux_launcher.h"

namespace sandglass::sandbox_runtime::host {
namespace {

namespace base = engine::base;

struct Arguments {
  std::string data;
  std::int64_t engine_uid = -1;
  std::int64_t grace_ms = 30'000;
};

base::Result<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) return base::fail(base::Code::usage, name + " needs a value");
    const std::string value = argv[i + 1];
    std::int64_t* number = name == "--engine-uid" ? &arguments.engine_uid
                           : name == "--grace-ms" ? &arguments.grace_ms
                                                  : nullptr;
    if (name == "--data") {
      arguments.data = value;
    } else if (number == nullptr) {
      return base::fail(base::Code::usage, "unknown argument " + name);
    } else if (auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number);
               error != std::errc() || end != value.data() + value.size()) {
      return base::fail(base::Code::usage, name + " needs a number, not '" + value + "'");
    }
  }
  if (arguments.data.empty()) return base::fail(base::Code::usage, "--data is needed");
  return arguments;
}

provider::linux_jail::LauncherOptions launcher_options(const base::DataFolder& folder,
                                                       std::int64_t grace_ms) {
  const std::filesystem::path programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  provider::linux_jail::LauncherOptions options;
  options.data_folder_id = folder.machine_id();
  options.folder = folder.file("host/jails");
  options.keeper_program = programs / "sandglass-keeper";
  options.init_program = programs / "sandglass-init";
  options.adopt_grace_ms = static_cast<std::uint32_t>(grace_ms);
  options.blank_images = 2;
  return options;
}

/// A sandbox takes about ten descriptors here and in the keeper, which inherits this.
void allow_many_descriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

base::Status run(const Arguments& arguments) {
  auto folder = base::DataFolder::open_read_only(arguments.data);
  if (!folder) return std::unexpected(folder.error());
  for (const char* name : {"host", "host/jails"}) {
    if (mkdir(folder->file(name).c_str(), 0700) != 0 && errno != EEXIST) {
      return std::unexpected(base::system_error("making folder", folder->file(name), errno));
    }
  }
  // One host at a time: a second one would take sandboxes and socket from the first. A former one that is
  // about to end is waited for.
  auto lock = base::FileLock::wait(folder->file("host/lock"));
  if (!lock) return std::unexpected(lock.error());
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  sigprocmask(SIG_BLOCK, &mask, nullptr);  // before threads, so that they inherit it
  signal(SIGPIPE, SIG_IGN);
  allow_many_descriptors();
  auto launcher = provider::linux_jail::make_linux_launcher(launcher_options(*folder, arguments.grace_ms));
  if (!launcher) return std::unexpected(launcher.error());
  const base::SystemClock clock;
  frames::Loop loop(clock);
  base::ThreadPool pool(4);
  HostOptions options;
  options.socket_path = folder->host_socket();
  options.engine_uid = arguments.engine_uid < 0 ? geteuid() : static_cast<uid_t>(arguments.engine_uid);
  options.record_folder = folder->file("host/sandboxes");
  options.egress_socket = folder->egress_socket();
  options.grace_ms = arguments.grace_ms;
  Host host(loop, pool, **launcher, std::move(options));
  if (auto status = host.start(); !status) return status;
  const base::UniqueFd signals(signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
  const auto watch = loop.watch(signals.get(), EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info;
    while (read(signals.get(), &info, sizeof info) > 0) host.shut_down("asked to stop");
  });
  base::log(base::LogLevel::info, "ready", {{"socket", folder->host_socket()}});
  loop.run();
  loop.unwatch(watch);
  return {};
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::host

int main(int argc, char** argv) {
  if (sandglass::engine::base::list_crash_points(argc, argv)) return 0;
  namespace base = sandglass::engine::base;
  base::set_log_process("host");
  const auto arguments = sandglass::sandbox_runtime::host::parse(argc, argv);
  const auto status = arguments ? sandglass::sandbox_runtime::host::run(*arguments)
                                : base::Status(std::unexpected(arguments.error()));
  if (status) return 0;
  base::log(base::LogLevel::error, "stopped",
            {{"code", base::name_of(status.error().code)}, {"reason", status.error().message}});
  return status.error().code == base::Code::usage ? 64 : 1;
}
