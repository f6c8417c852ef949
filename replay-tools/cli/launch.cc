#include "replay-tools/cli/launch.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "engine/base/data_folder.h"
#include "engine/base/unique_fd.h"

namespace sandglass::replay_tools::cli {

namespace {

namespace base = engine::base;
using base::Code;

std::string server_path() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string whole(path.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return whole.substr(0, whole.rfind('/')) + "/sandglassd";
}

std::vector<std::string> arguments_of(const LaunchOptions& options) {
  std::vector<std::string> arguments = {"sandglassd", "--data", options.data};
  if (!options.config.empty()) arguments.insert(arguments.end(), {"--config", options.config});
  for (const auto& setting : options.settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

std::vector<char*> pointers(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

/// "ready", "standby" (every call is told who serves) or "error CODE MESSAGE".
base::Status parse_report(std::string line, const std::string& log) {
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (line == "ready" || line == "standby") return {};
  unsigned code = 0;
  if (line.starts_with("error ")) {
    const char* begin = line.data() + 6;
    const auto [end, failed] = std::from_chars(begin, line.data() + line.size(), code);
    if (failed == std::errc() && *end == ' ')
      return base::fail(static_cast<Code>(code), std::string(end + 1));
  }
  return base::fail(Code::engine_unreachable, "sandglassd ended before it was ready; its log is " + log);
}

}  // namespace

base::Status launch_server(const LaunchOptions& options) {
  const auto log_path = base::DataFolder::log_file(options.data);
  if (!log_path) return std::unexpected(log_path.error());
  const std::string& log = *log_path;
  const base::UniqueFd log_fd(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  const base::UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::array<int, 2> ends{};
  if (!log_fd || !null || pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::unexpected(base::system_error("cannot start sandglassd with its log", log, errno));
  }
  const base::UniqueFd reading(ends[0]);
  base::UniqueFd writing(ends[1]);
  auto arguments = arguments_of(options);
  arguments.insert(arguments.end(), {"--exit-when-idle", "--ready-fd", std::to_string(writing.get())});
  auto argv = pointers(arguments);
  const std::string program = server_path();
  const pid_t pid = fork();
  if (pid < 0) return std::unexpected(base::system_error("cannot fork for", program, errno));
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    dup2(null.get(), STDIN_FILENO);
    dup2(log_fd.get(), STDOUT_FILENO);
    dup2(log_fd.get(), STDERR_FILENO);
    // The server outlives this command: nothing that the caller has open (a lock, a pipe) may stay open with
    // it.
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    fcntl(writing.get(), F_SETFD, 0);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  writing.reset();
  std::string line;
  std::array<char, 1024> part{};
  for (;;) {
    const auto got = read(reading.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(part.data(), static_cast<std::size_t>(got));
    if (line.ends_with('\n')) break;
  }
  auto status = parse_report(line, log);
  if (!status) waitpid(pid, nullptr, 0);
  return status;
}

base::Error become_server(const LaunchOptions& options) {
  auto arguments = arguments_of(options);
  auto argv = pointers(arguments);
  const std::string program = server_path();
  execv(program.c_str(), argv.data());
  return base::system_error("cannot start", program, errno);
}

}  // namespace sandglass::replay_tools::cli
