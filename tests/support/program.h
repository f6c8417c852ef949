// One of our programs, or any other, as a child of the test: with chosen descriptors, ended with the test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::tests::support {

/// build/<preset>, also when the test program was started by hand.
inline std::string build_folder() {
  if (const char* folder = std::getenv("SANDGLASS_BUILD")) return folder;
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string program(path, static_cast<std::size_t>(length));
  return program.substr(0, program.rfind("/tests/"));
}

inline std::string source_folder() {
  if (const char* folder = std::getenv("SANDGLASS_SOURCE")) return folder;
  return build_folder() + "/../..";
}

inline std::string program_path(const std::string& name) {
  return build_folder() + "/bin/" + name;
}

class Program {
 public:
  /// `descriptors` keep their numbers in the child; all others of the test are close-on-exec already.
  Program(std::vector<std::string> command, const std::vector<int>& descriptors) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const int fd : descriptors) ::fcntl(fd, F_SETFD, 0);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Program() { kill(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// The exit status, or minus the signal. Kills it after ten seconds: -9.
  int wait() {
    pollfd ending{pidfd_.get(), POLLIN, 0};
    if (::poll(&ending, 1, 10'000) <= 0) ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  engine::base::UniqueFd pidfd_;
};

}  // namespace sandglass::tests::support
