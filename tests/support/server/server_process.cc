#include "tests/support/server/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/data_folder.h"

namespace sandglass::tests::support {

namespace {

struct Pipe {
  engine::base::UniqueFd reading, writing;
  Pipe() {
    std::array<int, 2> ends{};
    SG_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void execute(const std::string& program, std::vector<std::string> arguments,
                          std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), program);
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  auto argv = pointers(arguments);
  auto envp = pointers(environment);
  execvpe(program.c_str(), argv.data(), envp.data());
  _exit(127);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) SG_CHECK(errno == EINTR, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string program_path(const std::string& name) {
  const char* build = std::getenv("SANDGLASS_BUILD");
  return std::string(build == nullptr ? "build/dev" : build) + "/bin/" + name;
}

Ended run_program(const std::string& name, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& environment) {
  Pipe out, err;
  const pid_t pid = fork();
  SG_CHECK(pid >= 0, "fork");
  if (pid == 0) {
    dup2(out.writing.get(), STDOUT_FILENO);
    dup2(err.writing.get(), STDERR_FILENO);
    execute(name.find('/') == std::string::npos ? program_path(name) : name, arguments, environment);
  }
  out.writing.reset();
  err.writing.reset();
  Ended ended;
  std::array<char, 4096> part{};
  std::array<pollfd, 2> polled = {{{out.reading.get(), POLLIN, 0}, {err.reading.get(), POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&ended.output, &ended.errors};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      const auto got = read(polled[i].fd, part.data(), part.size());
      if (got <= 0) {
        polled[i].fd = -1;
      } else {
        texts[i]->append(part.data(), static_cast<std::size_t>(got));
      }
    }
  }
  ended.status = wait_for(pid);
  return ended;
}

ServerProcess::ServerProcess(std::string data, Options options) : data_(std::move(data)) {
  Pipe ready;
  const std::string log = data_ + ".log";
  pid_ = fork();
  SG_CHECK(pid_ >= 0, "fork");
  if (pid_ == 0) {
    const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    fcntl(ready.writing.get(), F_SETFD, 0);
    std::vector<std::string> arguments = {"--data", data_, "--ready-fd", std::to_string(ready.writing.get())};
    arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
    execute(program_path("sandglassd"), std::move(arguments), std::move(options.environment));
  }
  ready_fd_ = std::move(ready.reading);
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) stop();
}

const std::string& ServerProcess::ready() {
  std::array<char, 512> part{};
  while (!ready_.ends_with('\n')) {
    const auto got = read(ready_fd_.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    ready_.append(part.data(), static_cast<std::size_t>(got));
  }
  while (ready_.ends_with('\n')) ready_.pop_back();
  return ready_;
}

pid_t ServerProcess::engine_pid() {
  const auto status = client()->status();
  SG_CHECK(status.has_value(), status ? "" : status.error().message);
  return static_cast<pid_t>(status->pid());
}

void ServerProcess::kill_engine() {
  SG_CHECK(kill(engine_pid(), SIGKILL) == 0, "kill");
}

int ServerProcess::stop() {
  kill(pid_, SIGTERM);
  return wait();
}

int ServerProcess::wait() {
  return wait_for(std::exchange(pid_, -1));
}

std::string ServerProcess::token(const std::string& name) const {
  auto text = engine::base::read_whole_file(data_ + "/tokens/" + name, 256);
  SG_CHECK(text.has_value(), text ? "" : text.error().message);
  while (text->ends_with('\n')) text->pop_back();
  return *text;
}

std::unique_ptr<engine::client::Client> ServerProcess::client(const std::string& token_name) {
  return client_with(token(token_name));
}

std::unique_ptr<engine::client::Client> ServerProcess::client_with(const std::string& token,
                                                                   std::int64_t retry_for_ms) {
  return std::make_unique<engine::client::Client>(engine::client::ConnectOptions{
      .socket = data_ + "/run/api.sock", .token = token, .retry_for_ms = retry_for_ms});
}

std::string ServerProcess::log() const {
  std::ifstream file(data_ + ".log");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace sandglass::tests::support
