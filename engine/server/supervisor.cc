#include "engine/server/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/server/network_config.h"

namespace sandglass::engine::server {

namespace {

using base::Code;
using base::Exit;
using base::LogLevel;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kFirstBackoffMs = 50;
constexpr std::int64_t kLongestBackoffMs = 5'000;
constexpr std::int64_t kHealthyMs = 10'000;  // a child that lived as long starts its backoff anew
constexpr unsigned kFailuresBeforeReady =
    5;  // an engine that never got ready is given up after so many starts
constexpr std::int64_t kStopGraceMs = 10'000;

std::int64_t now_ns() {
  return base::SystemClock().monotonic_ns();
}

/// Ends for which a new start would end the same way.
bool is_incurable(Exit exit) {
  return exit == Exit::usage || exit == Exit::bad_file || exit == Exit::folder ||
         exit == Exit::address_in_use;
}

base::Result<std::pair<base::UniqueFd, base::UniqueFd>> stream_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return base::fail(Code::io_error, std::string("socketpair: ") + std::strerror(errno));
  }
  return std::pair(base::UniqueFd(ends[0]), base::UniqueFd(ends[1]));
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return std::string("signal ") + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

base::UniqueFd block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return base::UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

Supervisor::Supervisor(base::DataFolder folder, Config config, Separation separation,
                       SupervisorOptions options)
    : folder_(std::move(folder)),
      config_(std::move(config)),
      separation_(std::move(separation)),
      options_(std::move(options)),
      programs_(program_folder()),
      group_(sandbox_runtime::provider::linux_jail::ServerGroup::make(folder_.machine_id())) {
  const auto set_up = [&](Service& service, const char* name) {
    service.name = name;
    service.program = programs_ + "/sandglass-" + name;
    service.wanted = access(service.program.c_str(), X_OK) == 0;
    if (!service.wanted) {
      base::log(LogLevel::warning, "program_missing", {{"name", name}, {"path", service.program}});
    }
  };
  set_up(engine_, "engine");
  set_up(effect_, "effect");
  set_up(host_, "host");
  set_up(egress_, "egress");
}

Exit Supervisor::run() {
  const base::UniqueFd signals = block_signals();
  while (!stopping_) {
    if (auto started = start_due(now_ns()); !started) {
      const base::Error& error = started.error();
      base::log(LogLevel::error, "start_failed", {{"reason", error.message}});
      if (!engine_.child.running() && !was_ready_) {
        consider_giving_up(
            base::exit_for(error.code),
            "error " + std::to_string(static_cast<unsigned>(error.code)) + " " + error.message);
      }
      if (stopping_) break;
    }
    std::array<pollfd, 2> polled = {{{signals.get(), POLLIN, 0}, {control_.fd(), POLLIN, 0}}};
    if (poll(polled.data(), control_.fd() >= 0 ? 2 : 1, wait_ms(now_ns())) < 0 && errno != EINTR) {
      base::log(LogLevel::error, "poll_failed", {{"reason", std::strerror(errno)}});
      exit_ = Exit::internal;
      break;
    }
    if (control_.fd() >= 0) hear_engine();
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) stopping_ = true;
    }
    reap();
  }
  stop_all();
  group_.remove();
  return exit_;
}

int Supervisor::wait_ms(std::int64_t now) const {
  std::int64_t wait = -1;
  for (const Service* service : {&engine_, &effect_, &host_, &egress_}) {
    if (!service->wanted || service->child.running()) continue;
    if (service == &effect_ && !engine_.child.running()) continue;  // it starts with the engine
    const std::int64_t due = std::max<std::int64_t>(0, (service->start_at_ns - now) / kMs + 1);
    wait = wait < 0 ? due : std::min(wait, due);
  }
  return static_cast<int>(wait);
}

base::Status Supervisor::start_due(std::int64_t now) {
  start_or_back_off(egress_, &Supervisor::start_egress, now);
  start_or_back_off(host_, &Supervisor::start_host, now);
  if (engine_.wanted && !engine_.child.running() && now >= engine_.start_at_ns) {
    auto started = start_engine_pair();
    if (!started) {
      back_off(engine_, now);
      return started;
    }
  }
  if (effect_.wanted && engine_.child.running() && !effect_.child.running() && now >= effect_.start_at_ns) {
    auto socket = start_effect();
    if (!socket) {
      back_off(effect_, now);
      return std::unexpected(socket.error());
    }
    return control_.send("effect", socket->get());
  }
  return {};
}

void Supervisor::start_or_back_off(Service& service, base::Status (Supervisor::*start)(), std::int64_t now) {
  if (!service.wanted || service.child.running() || now < service.start_at_ns) return;
  if (auto started = (this->*start)(); !started) {
    base::log(LogLevel::error, "start_failed", {{"name", service.name}, {"reason", started.error().message}});
    back_off(service, now);
  }
}

base::Status Supervisor::start_service(Service& service, ChildStart start) {
  start.program = service.program;
  start.group = group_.door();
  auto child = start_child(start);
  if (!child) return std::unexpected(child.error());
  service.child = std::move(*child);
  service.started_ns = now_ns();
  base::log(LogLevel::info, "started", {{"name", service.name}, {"pid", service.child.pid}});
  return {};
}

base::Result<base::UniqueFd> Supervisor::start_effect() {
  // Every executor holds the lock through a description of its own: it is free only when that process is gone
  // (V2).
  auto lock = base::FileLock::wait(folder_.file("effect.lock"));
  if (!lock) return std::unexpected(lock.error());
  auto pair = stream_pair();
  if (!pair) return std::unexpected(pair.error());
  auto network = bytes_in_memory("network-config", network_config_bytes(config_));
  if (!network) return std::unexpected(network.error());
  ChildStart start{.arguments = {"--socket-fd", std::to_string(pair->second.get()), "--config-fd",
                                 std::to_string(network->get())},
                   .descriptors = {pair->second.get(), network->get(), lock->fd()}};
  append(start.arguments, separation_.arguments_for(Helper::effect));
  if (auto started = start_service(effect_, std::move(start)); !started)
    return std::unexpected(started.error());
  return std::move(pair->first);
}

base::Status Supervisor::start_engine_pair() {
  kill_and_wait(effect_.child);
  base::UniqueFd effect_socket;
  if (effect_.wanted) {
    auto socket = start_effect();
    if (!socket) return std::unexpected(socket.error());
    effect_socket = std::move(*socket);
    SG_CRASH_POINT("supervisor.executor_started");
  }
  auto control = ControlChannel::make_pair();
  if (!control) return std::unexpected(control.error());
  ChildStart start{
      .arguments = {"--data", folder_.path(), "--control-fd", std::to_string(control->second.get())},
      .descriptors = {control->second.get()}};
  if (effect_socket) {
    start.arguments.insert(start.arguments.end(), {"--effect-fd", std::to_string(effect_socket.get())});
    start.descriptors.push_back(effect_socket.get());
  }
  if (!options_.config_path.empty()) {
    start.arguments.insert(start.arguments.end(), {"--config", options_.config_path});
  }
  for (const auto& setting : options_.settings)
    start.arguments.insert(start.arguments.end(), {"--set", setting});
  append(start.arguments, separation_.arguments_for(Helper::engine));
  if (auto started = start_service(engine_, std::move(start)); !started) return started;
  engine_error_.clear();
  control_ = ControlChannel(std::move(control->first));
  return {};
}

base::Status Supervisor::start_host() {
  if (auto started =
          start_service(host_, {.arguments = {"--data", folder_.path(), "--grace-ms",
                                              std::to_string(config_.sandbox.adopt_grace_ms), "--engine-uid",
                                              std::to_string(separation_.uid_of(Helper::engine))}});
      !started) {
    return started;
  }
  SG_CRASH_POINT("supervisor.host_started");
  return {};
}

base::Status Supervisor::start_egress() {
  auto network = bytes_in_memory("network-config", network_config_bytes(config_));
  if (!network) return std::unexpected(network.error());
  ChildStart start{
      .arguments = {"--socket", folder_.egress_socket(), "--config-fd", std::to_string(network->get())},
      .descriptors = {network->get()}};
  append(start.arguments, separation_.arguments_for(Helper::egress));
  if (auto started = start_service(egress_, std::move(start)); !started) return started;
  SG_CRASH_POINT("supervisor.egress_started");
  return {};
}

void Supervisor::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    for (Service* service : {&engine_, &effect_, &host_, &egress_}) {
      if (service->child.pid == pid) ended(*service, status, now_ns());
    }
  }
}

void Supervisor::ended(Service& service, int status, std::int64_t now) {
  if (&service == &engine_ && control_.fd() >= 0) hear_engine();  // its last words
  base::log(stopping_ ? LogLevel::info : LogLevel::warning, "ended",
            {{"name", service.name}, {"pid", service.child.pid}, {"how", describe(status)}});
  service.child = Child{};
  if ((now - service.started_ns) / kMs >= kHealthyMs) service.failures = 0;
  back_off(service, now);
  if (&service == &engine_) engine_ended(status);
  if (&service == &effect_) SG_CRASH_POINT("supervisor.executor_lost");
}

void Supervisor::back_off(Service& service, std::int64_t now) {
  const std::int64_t delay = std::min(kLongestBackoffMs, kFirstBackoffMs << std::min(service.failures, 10U));
  ++service.failures;
  service.start_at_ns = now + delay * kMs;
}

void Supervisor::engine_ended(int status) {
#ifdef SANDGLASS_CRASH_POINTS
  // A crash that a test has asked for once has happened; the next engine shall go on.
  if (std::getenv("SANDGLASS_CRASH_ONCE") != nullptr) unsetenv("SANDGLASS_CRASH_AT");
#endif
  control_ = ControlChannel();
  SG_CRASH_POINT("supervisor.engine_ended");
  kill_and_wait(effect_.child);  // an executor never outlives its engine (J16)
  SG_CRASH_POINT("supervisor.executor_ended");
  effect_.failures = 0;
  effect_.start_at_ns = 0;
  const auto exit = WIFEXITED(status) ? static_cast<Exit>(WEXITSTATUS(status)) : Exit::internal;
  consider_giving_up(
      exit, engine_error_.empty() ? "error 1000 the engine ended: " + describe(status) : engine_error_);
}

/// There is no engine, and what kept it from starting or ended it has this exit code.
void Supervisor::consider_giving_up(Exit exit, const std::string& report) {
  if (!is_incurable(exit) && (was_ready_ || engine_.failures < kFailuresBeforeReady)) return;
  exit_ = exit;
  stopping_ = true;
  tell_ready(report);
}

void Supervisor::hear_engine() {
  for (;;) {
    auto message = control_.receive();
    if (!message || !*message) return;
    const std::string& text = (*message)->text;
    if (text == "ready") {
      was_ready_ = true;
      SG_CRASH_POINT("supervisor.engine_ready");
      engine_.failures /= 2;  // it got that far: be quicker next time
      tell_ready("ready");
    } else if (text == "standby") {
      was_ready_ = true;
      tell_ready("standby");
    } else if (text == "idle" && options_.exit_when_idle) {
      base::log(LogLevel::info, "idle", {});
      stopping_ = true;
    } else if (text.starts_with("error ")) {
      engine_error_ = text;
    }
  }
}

void Supervisor::tell_ready(const std::string& line) {
  if (options_.ready_fd < 0) return;
  const std::string text = line + "\n";
  const auto wrote = write(options_.ready_fd, text.data(), text.size());
  if (wrote < 0) base::log(LogLevel::debug, "nobody_waits", {});
  close(std::exchange(options_.ready_fd, -1));
}

void Supervisor::stop_all() {
  stop({&engine_}, kStopGraceMs);
  SG_CRASH_POINT("supervisor.engine_stopped");
  stop({&effect_, &host_}, kStopGraceMs);
  stop({&egress_}, kStopGraceMs);
}

void Supervisor::stop(std::vector<Service*> services, std::int64_t grace_ms) {
  for (Service* service : services) {
    service->wanted = false;
    if (service->child.running()) kill(service->child.pid, SIGTERM);
  }
  const std::int64_t until = now_ns() + grace_ms * kMs;
  for (Service* service : services) {
    if (!service->child.running()) continue;
    pollfd polled{service->child.pidfd.get(), POLLIN, 0};
    const auto left = std::max<std::int64_t>(0, (until - now_ns()) / kMs);
    if (poll(&polled, 1, static_cast<int>(left)) == 0) {
      base::log(LogLevel::warning, "stop_overdue", {{"name", service->name}});
    }
    kill_and_wait(service->child);
  }
}

}  // namespace sandglass::engine::server
