// V18: cold create, from the provider call until the first /bin/true has returned its exit status, with all
// limits, disk, listener and init in place; beside it bubblewrap with --unshare-all in the same run. Prints
// one JSON line each.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/jail/jail_rig.h"

namespace sandglass::bench {
namespace {

using Clock = std::chrono::steady_clock;

double millis_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

tests::JailRig& rig() {
  static tests::JailRig made(1000);
  return made;
}

void report(benchmark::State& state, std::vector<double>& times) {
  std::ranges::sort(times);
  state.counters["p50_ms"] = times[times.size() / 2];
  state.counters["p95_ms"] = times[times.size() * 95 / 100];
}

void cold_create(benchmark::State& state) {
  sandbox_runtime::provider::Template tmpl = tests::JailRig::small_template();
  tmpl.network = true;
  tmpl.limits.disk.value = 2ULL << 30;
  tmpl.limits.inodes.value = 200'000;
  {
    tests::Sandbox warm_up = rig().make(tmpl);
    (void)rig().launcher().destroy(warm_up.id());
  }
  std::vector<double> times;
  std::vector<double> made;
  for (auto _ : state) {
    const auto start = Clock::now();
    tests::Sandbox box = rig().make(tmpl);
    made.push_back(millis_since(start));
    benchmark::DoNotOptimize(box.run("exec /bin/true"));
    times.push_back(millis_since(start));
    state.PauseTiming();
    (void)rig().launcher().destroy(box.id());
    state.ResumeTiming();
  }
  report(state, times);
  std::ranges::sort(made);
  state.counters["made_p50_ms"] = made[made.size() / 2];  // until create has answered
}
BENCHMARK(cold_create)->Unit(benchmark::kMillisecond)->Iterations(100);

void destroy(benchmark::State& state) {
  std::vector<double> times;
  for (auto _ : state) {
    state.PauseTiming();
    tests::Sandbox box = rig().make();
    state.ResumeTiming();
    const auto start = Clock::now();
    (void)rig().launcher().destroy(box.id());
    times.push_back(millis_since(start));
  }
  report(state, times);
}
BENCHMARK(destroy)->Unit(benchmark::kMillisecond)->Iterations(50);

void bubblewrap(benchmark::State& state) {
  std::vector<std::string> words = {
      "bwrap",  "--unshare-all", "--ro-bind", "/usr", "/usr",      "--symlink", "usr/lib64",
      "/lib64", "--symlink",     "usr/bin",   "/bin", "--symlink", "usr/lib",   "/lib",
      "--proc", "/proc",         "--dev",     "/dev", "--tmpfs",   "/tmp",      "/bin/true"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<double> times;
  for (auto _ : state) {
    const auto start = Clock::now();
    pid_t pid = 0;
    int status = -1;
    if (::posix_spawnp(&pid, "bwrap", nullptr, nullptr, argv.data(), environ) != 0 ||
        ::waitpid(pid, &status, 0) != pid || status != 0) {
      state.SkipWithError("bubblewrap does not run here");
      return;
    }
    times.push_back(millis_since(start));
  }
  report(state, times);
}
BENCHMARK(bubblewrap)->Unit(benchmark::kMillisecond)->Iterations(100);

}  // namespace
}  // namespace sandglass::bench

BENCHMARK_MAIN();
