// From SIGKILL to the first reply, with many runs asleep and as many finished (J10): the real server with all
// its processes. The folder is made once, through the API. What is measured: the time from the kill until a
// status call, a read of a sleeping run and the start of a new one are answered, and the engine's memory over
// that of an engine on an empty folder, by sleeping run.
//
// SANDGLASS_RECOVERY_RUNS (default 100000): sleeping runs, and as many finished. SANDGLASS_RECOVERY_FOLDER:
// keeps the folder there and uses it again.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/programs.h"
#include "engine/base/check.h"
#include "tests/support/server/server_process.h"

namespace sandglass::engine::server {
namespace {

using tests::support::ServerProcess;
using Clock = std::chrono::steady_clock;

constexpr int kCallers = 64;
constexpr int kRounds = 3;
/// A child that has lived so long is restarted without a wait that grows.
constexpr auto kHealthy = std::chrono::milliseconds(10'500);

int wanted_runs() {
  const char* text = std::getenv("SANDGLASS_RECOVERY_RUNS");
  return text != nullptr ? std::atoi(text) : 100'000;
}

std::string run_name(const char* kind, int number) {
  return std::string(kind) + "-" + std::to_string(number);
}

/// Starts a run that sleeps a month, or one that ends at once. Its id.
std::string start(client::Client& client, const std::string& request_id, bool sleeps) {
  client::api::StartRunRequest request;
  request.set_request_id(request_id);
  request.set_workflow("hello");
  request.set_input(sleeps ? R"({"count":2,"pause_ms":2592000000})" : R"({"count":1})");
  const auto reply = client.start_run(request);
  SG_CHECK(reply.has_value(), reply ? "" : reply.error().message);
  return reply->run_id();
}

/// Memory of the process that is its own: kB.
double own_memory_kb(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (status >> word) {
    double kb = 0;
    if (word == "RssAnon:" && status >> kb) return kb;
  }
  return 0;
}

/// Milliseconds from a SIGKILL of the engine, and what its successor needed.
struct Times {
  double first_reply = 0;
  double read_parked = 0;
  double started_new = 0;
  double recovery = 0;  // as the engine itself says
  double memory_kb = 0;
};

Times kill_and_ask(ServerProcess& server, const std::string& parked, int round) {
  auto client = server.client();
  const pid_t old = server.engine_pid();
  std::this_thread::sleep_for(kHealthy);
  const auto begin = Clock::now();
  const auto since = [&] { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); };
  SG_CHECK(kill(old, SIGKILL) == 0, "kill");
  Times times;
  for (;;) {
    client = server.client();  // a new caller: one that was connected would wait out its own backoff first
    const auto status = client->ping(200);
    if (status && status->pid() != old) {
      times.first_reply = since();
      times.recovery = static_cast<double>(status->recovered_ms());
      break;
    }
    SG_CHECK(since() < 120'000, "the engine does not come back");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!parked.empty()) {
    client::api::GetRunRequest request;
    request.set_run_id(parked);
    const auto run = client->get_run(request);
    SG_CHECK(run && run->timers_size() == 1, "a sleeping run is not read");
    times.read_parked = since();
  }
  (void)start(*client, run_name("new", round) + "-" + std::to_string(old), false);
  times.started_new = since();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  times.memory_kb = own_memory_kb(server.engine_pid());
  return times;
}

void fill(const std::string& data, int runs) {
  ServerProcess server(data);
  SG_CHECK(server.ready() == "ready", server.ready());
  std::atomic<int> next{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      const auto client = server.client();
      for (int i = next++; i < 2 * runs; i = next++) {
        (void)start(*client, run_name(i % 2 == 0 ? "asleep" : "finished", i / 2), i % 2 == 0);
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

struct Folder {
  Folder() {
    bench::find_build();
    const char* kept = std::getenv("SANDGLASS_RECOVERY_FOLDER");
    keep = kept != nullptr;
    path = keep ? kept : "/var/tmp/sandglass-recovery-" + std::to_string(getpid());
  }
  ~Folder() {
    std::error_code ignored;
    if (!keep) std::filesystem::remove_all(path, ignored);
  }
  std::string path;
  bool keep = false;
};

void first_reply_after_sigkill(benchmark::State& state) {
  const int runs = wanted_runs();
  Folder folder;
  const std::string full = folder.path + "/full-" + std::to_string(runs);
  const std::string empty = folder.path + "/empty-" + std::to_string(getpid());
  std::filesystem::create_directories(folder.path);
  if (!std::filesystem::exists(full + ".filled")) {
    std::filesystem::remove_all(full);
    fill(full, runs);
    std::ofstream(full + ".filled") << runs;
  }
  double memory_kb = 0;
  {
    ServerProcess server(empty);
    SG_CHECK(server.ready() == "ready", server.ready());
    memory_kb = kill_and_ask(server, "", 0).memory_kb;
  }
  std::filesystem::remove_all(empty);
  ServerProcess server(full);
  SG_CHECK(server.ready() == "ready", server.ready());
  const std::string parked = start(*server.client(), run_name("asleep", runs / 2), true);  // known already
  std::vector<Times> all;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) all.push_back(kill_and_ask(server, parked, round));
  }
  const auto worst = [&](double Times::* what) { return std::ranges::max(all, {}, what).*what; };
  state.counters["first_reply_ms"] = worst(&Times::first_reply);
  state.counters["read_parked_ms"] = worst(&Times::read_parked);
  state.counters["started_new_ms"] = worst(&Times::started_new);
  state.counters["recovery_ms"] = worst(&Times::recovery);
  state.counters["per_parked_run_bytes"] = (worst(&Times::memory_kb) - memory_kb) * 1024 / runs;
  state.counters["empty_engine_kb"] = memory_kb;
  state.SetLabel(std::to_string(runs) + " asleep, " + std::to_string(runs) + " finished; the worst of " +
                 std::to_string(kRounds));
}
BENCHMARK(first_reply_after_sigkill)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::server

BENCHMARK_MAIN();
