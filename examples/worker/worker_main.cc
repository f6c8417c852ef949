// A worker that greets: `sandglass start hello --input '{"name": "you", "count": 3, "activity":
// "demo.greet"}'` has its steps carried out here. SIGTERM stops it politely.
#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "engine/base/result.h"
#include "engine/client/worker.h"

namespace {

using namespace sandglass::engine;
using Json = nlohmann::json;

/// One line an attempt, at its begin and at its end, so that somebody can count.
class Journal {
 public:
  explicit Journal(const std::string& path) {
    if (!path.empty()) file_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  }
  void line(const Json& value) const {
    const std::string text = value.dump() + "\n";
    if (file_ >= 0 && write(file_, text.data(), text.size()) < 0) std::perror("cannot write the log");
  }

 private:
  int file_ = -1;
};

/// {"name", "number", "ms"}: works for so many milliseconds and tells how far it is.
client::Ended greet(const client::Task& task, client::Attempt& attempt, const Journal& journal) {
  const Json input = Json::parse(task.input, nullptr, false);
  if (!input.is_object()) return client::Ended::failed("the input is no object", "BadInput", true);
  const Json from = task.progress.empty() ? Json(nullptr) : Json::parse(task.progress, nullptr, false);
  journal.line({{"what", "begin"}, {"key", task.key}, {"attempt", task.attempt}, {"from", from}});
  const int ms = input.contains("ms") && input["ms"].is_number_integer() ? input["ms"].get<int>() : 0;
  for (int done = from.is_number_integer() ? from.get<int>() : 0; done < ms;) {
    if (attempt.cancelled()) return client::Ended::failed("told to stop", "Stopped");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(10, ms - done)));
    done += 10;
    attempt.heartbeat(std::to_string(done));
  }
  journal.line({{"what", "end"}, {"key", task.key}, {"attempt", task.attempt}});
  return client::Ended::done(
      Json("Hello, " + input.value("name", "world") + "! (" + std::to_string(input.value("number", 1)) + ")")
          .dump());
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGTERM);
  sigaddset(&ended, SIGINT);
  sigprocmask(SIG_BLOCK, &ended, nullptr);  // before any thread begins

  client::WorkerOptions options;
  std::string token_file;
  std::string log;
  std::string queue;
  CLI::App app("Greets for the workflow hello");
  auto* engine = app.add_option_group("engine", "where the engine is");
  engine->add_option("--socket", options.connect.socket, "its socket: DATA/run/api.sock")
      ->check(CLI::ExistingPath);
  engine->add_option("--address", options.connect.address, "or its address, 127.0.0.1:7233");
  engine->require_option(1);
  app.add_option("--token-file", token_file, "a token with the role worker")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--capacity", options.capacity, "steps at a time");
  app.add_option("--grace-ms", options.grace_ms, "how long a polite stop waits");
  app.add_option("--queue", queue, "whose steps; else those of the activity");
  app.add_option("--log", log, "a line for each attempt");
  CLI11_PARSE(app, argc, argv);
  options.connect.token = first_line(token_file);

  const Journal journal(log);
  client::Worker worker(options);
  worker.add(
      "demo.greet",
      [&journal](const client::Task& task, client::Attempt& attempt) {
        return greet(task, attempt, journal);
      },
      queue);
  std::thread([&worker, ended] {
    int signal = 0;
    sigwait(&ended, &signal);
    worker.drain();
  }).detach();
  std::printf("serving as %s\n", worker.name().c_str());
  std::fflush(stdout);
  const base::Status status = worker.run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::fflush(stderr);
  _exit(status ? 0 : 1);  // functions that were given up may still run
}
