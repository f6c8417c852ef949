#include "tests/support/kafka/brokers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "engine/base/check.h"
#include "tests/support/program.h"

namespace sandglass::tests::support {

namespace {

constexpr int ready_seconds = 120;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// In a child: becomes the command, its output in the file `log`, dying with the thread that forked it.
[[noreturn]] void become(std::vector<std::string>& words, const std::string& log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // a Ctrl-C at the terminal is for the test, which ends its brokers
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::close_range(3, ~0U, 0);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

/// A script of ours, to its end. Its exit status.
int run_script(std::vector<std::string> words, const std::string& log, const std::string& version) {
  if (!version.empty()) words.insert(words.begin(), {"env", "SANDGLASS_KAFKA_VERSION=" + version});
  const pid_t pid = ::fork();
  if (pid == 0) become(words, log);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A folder for brokers, on the disk that also holds the build. Those of test programs that were killed are
/// deleted.
std::string new_folder() {
  namespace fs = std::filesystem;
  const fs::path all = fs::path(build_folder()) / "kafka";
  fs::create_directories(all);
  for (const auto& entry : fs::directory_iterator(all)) {
    const std::string pid = entry.path().filename().string();
    std::error_code ignored;
    if (!fs::exists("/proc/" + pid.substr(0, pid.find('-')))) fs::remove_all(entry.path(), ignored);
  }
  static int counter = 0;
  return (all / (std::to_string(::getpid()) + "-" + std::to_string(++counter))).string();
}

}  // namespace

/// The thread that forks. A broker dies with the thread that started it, so that must be one that lives as
/// long as the brokers do, whichever thread asks.
class Brokers::Launcher {
 public:
  Launcher() : thread_([this] { run(); }) {}
  ~Launcher() {
    put({});
    thread_.join();
  }
  pid_t fork(std::vector<std::string> words, const std::string& log) {
    std::packaged_task<pid_t()> task([&] {
      const pid_t pid = ::fork();
      if (pid == 0) become(words, log);
      return pid;
    });
    std::future<pid_t> pid = task.get_future();
    put(std::move(task));
    return pid.get();
  }

 private:
  using Task = std::packaged_task<pid_t()>;

  void put(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task.valid()) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::thread thread_;
};

Brokers& Brokers::one() {
  static Brokers brokers(1);
  return brokers;
}

Brokers& Brokers::three() {
  static Brokers brokers(3);
  return brokers;
}

Brokers::Brokers(int count, const std::string& settings, const std::string& version)
    : launcher_(std::make_unique<Launcher>()), folder_(new_folder()) {
  const std::string script = source_folder() + "/scripts/kafka";
  std::filesystem::create_directories(folder_);
  const std::string log = folder_ + ".log";
  if (run_script({script, "have-jars"}, log, version) != 0 &&
      std::getenv("SANDGLASS_NO_REGISTRY") != nullptr) {
    std::fprintf(stderr, "left out: no jars of Kafka, and SANDGLASS_NO_REGISTRY is set\n");
    std::exit(77);
  }
  std::vector<std::string> words{script, "prepare", folder_, std::to_string(count)};
  if (!settings.empty()) {
    words.push_back(folder_ + ".settings");
    std::ofstream(words.back()) << settings;
  }
  SG_CHECK(run_script(words, log, version) == 0, read_file(log));
  bootstrap_ = first_line(folder_ + "/bootstrap");
  std::stringstream addresses(bootstrap_);
  for (int number = 1; number <= count; ++number) {
    Broker& broker = brokers_.emplace_back();
    std::getline(addresses, broker.address, ',');
    broker.tls = "localhost:" + first_line(folder(number) + "/tls-port");
    broker.sasl = "localhost:" + first_line(folder(number) + "/sasl-port");
  }
  for (int number = 1; number <= count; ++number) launch(number);
  for (int number = 1; number <= count; ++number) wait_ready(number);
}

Brokers::~Brokers() {
  for (int number = 1; number <= count(); ++number) kill(number);
  std::error_code ignored;
  for (const char* suffix : {"", ".log", ".settings"}) std::filesystem::remove_all(folder_ + suffix, ignored);
}

void Brokers::launch(int number) {
  Broker& broker = at(number);
  SG_CHECK(broker.pid <= 0, "this broker runs");
  std::vector<std::string> command = lines_of(folder(number) + "/command");
  std::filesystem::remove(folder(number) + "/log");  // the former one also said that it had started
  broker.pid = launcher_->fork(std::move(command), folder(number) + "/log");
  broker.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, broker.pid, 0)));
  broker.paused = false;
}

void Brokers::wait_ready(int number) {
  const std::string log = folder(number) + "/log";
  for (int tenths = 0; tenths < ready_seconds * 10; ++tenths) {
    if (read_file(log).contains("Kafka Server started")) return;
    pollfd ending{at(number).pidfd.get(), POLLIN, 0};
    SG_CHECK(::poll(&ending, 1, 100) == 0, "a broker ended while it started:\n" + read_file(log));
  }
  SG_CHECK(false, "a broker did not get ready:\n" + read_file(log));
}

void Brokers::reap(int number) {
  Broker& broker = at(number);
  ::waitpid(broker.pid, nullptr, 0);
  broker.pid = -1;
  broker.paused = false;
}

void Brokers::start(int number) {
  launch(number);
  wait_ready(number);
}

void Brokers::kill(int number) {
  if (!runs(number)) return;
  ::kill(at(number).pid, SIGKILL);
  reap(number);
}

void Brokers::terminate(int number) {
  if (!runs(number)) return;
  resume(number);
  ::kill(at(number).pid, SIGTERM);
  reap(number);
}

void Brokers::pause(int number) {
  SG_CHECK(runs(number), "this broker does not run");
  ::kill(at(number).pid, SIGSTOP);
  siginfo_t stopped{};
  SG_CHECK(::waitid(P_PID, static_cast<id_t>(at(number).pid), &stopped, WSTOPPED) == 0, "waitid");
  at(number).paused = true;
}

void Brokers::resume(int number) {
  if (!at(number).paused) return;
  ::kill(at(number).pid, SIGCONT);
  siginfo_t goes_on{};
  SG_CHECK(::waitid(P_PID, static_cast<id_t>(at(number).pid), &goes_on, WCONTINUED) == 0, "waitid");
  at(number).paused = false;
}

void Brokers::restart_all() {
  for (int number = 1; number <= count(); ++number) kill(number);
  heal();
}

void Brokers::heal() {
  for (int number = 1; number <= count(); ++number) {
    resume(number);
    if (!runs(number)) launch(number);
  }
  for (int number = 1; number <= count(); ++number) wait_ready(number);
}

}  // namespace sandglass::tests::support
