#include "engine/server/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace sandglass::engine::server {

namespace {

/// Runs in the child between fork and exec: system calls only. Ends the process on any failure.
[[noreturn]] void become(const ChildStart& start, std::vector<char*>& argv, int program_fd, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGPIPE, SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
  // A child that changes its uid, which clears this, sets it again (V1). Then the check that the parent was
  // there.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(126);
  // A session and an input of its own: who has taken over a child shall not type into the caller's terminal,
  // and Ctrl-C there is for the supervisor, which stops them in order.
  const int nothing = open("/dev/null", O_RDONLY);
  if (setsid() < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) _exit(126);
  // Outside of it the child works too, only less favoured: `doctor` looks where they are.
  if (start.group >= 0) [[maybe_unused]]
    const auto entered = write(start.group, "0", 1);
  // Exactly the descriptors that it is given; what the supervisor itself inherited stays here.
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) _exit(126);
  for (int fd : start.descriptors) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags < 0 || fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) < 0) _exit(126);
  }
  fexecve(program_fd, argv.data(), environ);
  _exit(127);
}

}  // namespace

base::Result<Child> start_child(const ChildStart& start) {
  base::UniqueFd program(open(start.program.c_str(), O_RDONLY | O_CLOEXEC));
  if (!program) {
    return base::fail(base::Code::io_error,
                      "cannot open the program " + start.program + ": " + std::strerror(errno));
  }
  std::vector<std::string> arguments = start.arguments;
  arguments.insert(arguments.begin(), start.program);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return base::fail(base::Code::io_error, std::string("cannot fork: ") + std::strerror(errno));
  if (pid == 0) become(start, argv, program.get(), parent);
  Child child;
  child.pid = pid;
  child.pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

void kill_and_wait(Child& child) {
  if (!child.running()) return;
  kill(child.pid, SIGKILL);
  while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  child = Child{};
}

std::string program_folder() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string whole(path.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return whole.substr(0, whole.rfind('/'));
}

base::Result<base::UniqueFd> bytes_in_memory(const char* name, std::string_view bytes) {
  base::UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) return base::fail(base::Code::io_error, std::string("memfd_create: ") + std::strerror(errno));
  if (pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return base::fail(base::Code::io_error, std::string("cannot write a memfd: ") + std::strerror(errno));
  }
  return fd;
}

}  // namespace sandglass::engine::server
