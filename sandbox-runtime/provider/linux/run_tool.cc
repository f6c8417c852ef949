#include "sandbox-runtime/provider/linux/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr int kTimeoutMs = 60'000;
constexpr std::size_t kOutputBytes = 4096;

std::string find_program(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}) {
    const std::string path = folder + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace

Status run_tool(const std::vector<std::string>& argv) {
  const std::string path = find_program(argv[0]);
  if (path.empty()) return fail(Code::provider_failed, argv[0] + " is not installed");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Code::provider_failed, "pipe: " + error_text(errno));
  const UniqueFd from(ends[0]);
  UniqueFd into(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, into.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, into.get(), 2);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  char locale[] = "LC_ALL=C";
  char* environment[] = {locale, nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments.data(), environment);
  ::posix_spawn_file_actions_destroy(&actions);
  into.reset();
  if (error != 0) return fail(Code::provider_failed, path + ": " + error_text(error));
  std::string output;
  pollfd waiting{from.get(), POLLIN, 0};
  bool late = false;
  for (;;) {
    if (::poll(&waiting, 1, kTimeoutMs) == 0) {
      late = true;
      ::kill(pid, SIGKILL);
      break;
    }
    char buffer[1024];
    const ssize_t size = ::read(from.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    output.append(buffer, static_cast<std::size_t>(size));
    if (output.size() > kOutputBytes) output.erase(0, output.size() - kOutputBytes);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!late && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(Code::provider_failed,
              path + (late ? " did not end" : " failed") + ": " + engine::base::escape_for_terminal(output));
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
