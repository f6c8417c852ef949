// A real sandglassd on a data folder of its own, with its engine child, for tests that use the public API.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/client/client.h"
#include "tests/support/temp_folder.h"

namespace sandglass::tests::support {

/// How a program ended, and what it said.
struct Ended {
  int status = -1;     // exit status; -1: by a signal
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// Runs a program of this build to its end. `environment`: "NAME=value", added.
Ended run_program(const std::string& name, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& environment = {});
std::string program_path(const std::string& name);

class ServerProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;    // besides --data and --ready-fd
    std::vector<std::string> environment;  // "NAME=value"
  };

  explicit ServerProcess(std::string data) : ServerProcess(std::move(data), {}) {}
  ServerProcess(std::string data, Options options);
  /// Ends it with SIGTERM and waits.
  ~ServerProcess();

  /// The line that it wrote to --ready-fd: "ready" or "error CODE MESSAGE". Waits for it.
  const std::string& ready();
  const std::string& data() const { return data_; }
  pid_t pid() const { return pid_; }
  pid_t engine_pid();
  /// SIGKILL to the engine child; the supervisor starts another.
  void kill_engine();
  /// SIGTERM, then waits. The exit status, or -1 for a signal.
  int stop();
  /// Waits for its end without asking for it.
  int wait();

  std::unique_ptr<engine::client::Client> client(const std::string& token_name = "operator");
  std::unique_ptr<engine::client::Client> client_with(const std::string& token,
                                                      std::int64_t retry_for_ms = 30'000);
  std::string token(const std::string& name) const;
  std::string log() const;

 private:
  std::string data_;
  pid_t pid_ = -1;
  engine::base::UniqueFd ready_fd_;
  std::string ready_;
};

}  // namespace sandglass::tests::support
