// journal_writer_main.cc as a child process of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "engine/base/check.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::journal {

class WriterProcess {
 public:
  WriterProcess(const std::string& folder, std::uint64_t batches, std::uint64_t file_limit = 0) {
    const char* build = std::getenv("SANDGLASS_BUILD");
    const std::string program = std::string(build != nullptr ? build : "build/dev") + "/bin/journal_writer";
    int fds[2];
    SG_CHECK(pipe(fds) == 0, "pipe");
    child_ = fork();
    if (child_ == 0) {
      dup2(fds[1], STDOUT_FILENO);
      ::close(fds[0]);
      ::close(fds[1]);
      execl(program.c_str(), program.c_str(), folder.c_str(), std::to_string(batches).c_str(),
            std::to_string(file_limit).c_str(), nullptr);
      _exit(127);
    }
    ::close(fds[1]);
    said_ = fdopen(fds[0], "r");
  }
  ~WriterProcess() { std::fclose(said_); }
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  /// Reads acknowledgements until `count` have come or the process has ended; false: it has ended.
  bool listen(std::uint64_t count) {
    for (; count > 0; --count) {
      unsigned partition = 0;
      unsigned long long sequence = 0;
      if (std::fscanf(said_, "%u %llu\n", &partition, &sequence) != 2) return false;
      acknowledged_[static_cast<core::PartitionId>(partition)] = sequence;
    }
    return true;
  }
  void kill() { ::kill(child_, SIGKILL); }
  /// Everything it said until its end; the status of waitpid.
  int end() {
    listen(~0ULL);
    int status = 0;
    SG_CHECK(waitpid(child_, &status, 0) == child_, "waitpid");
    return status;
  }
  const std::map<core::PartitionId, core::Sequence>& acknowledged() const { return acknowledged_; }

 private:
  pid_t child_ = -1;
  FILE* said_ = nullptr;
  std::map<core::PartitionId, core::Sequence> acknowledged_;
};

}  // namespace sandglass::engine::journal
