// What the engine feels of a sandbox that takes all it can get (S3, V9): from a step's end to the start of
// the next, in turns quiet and beside the hog, in one run on one machine. The figure is the ratio of the two.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "bench/programs.h"
#include "engine/base/log.h"
#include "engine/base/short_slices.h"
#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {
namespace {

using bench::percentile;
using bench::since_us;
using bench::SteadyClock;

constexpr int kTurns = 4;
constexpr int kStepsOfTurn = 400;

struct Hog {
  const char* name;
  const char* command;
};
constexpr Hog kHogs[] = {
    {"processor", "./attack spin 1000"}, {"forks", "./attack forks bomb"},
    {"memory", "./attack memory plain"}, {"disk", "./attack disk"},
    {"inodes", "./attack inodes"},       {"output", "./attack flood 1000000000000"},
    {"sleep", "sleep 1000000"},
};

/// The hog again and again, as long as it lives: each ends when it has met its limit.
std::string for_ever(const Hog& hog) {
  return "while :; do " + std::string(hog.command) + "; rm -rf fill many; done";
}

void engine_step_beside_a_hog(benchmark::State& state) {
  engine::base::set_log_level(engine::base::LogLevel::warning);
  const Hog& hog = kHogs[state.range(0)];
  HostRig rig;
  auto tmpl = HostRig::small_template();
  tmpl.limits.cpu.value = 2'000;  // as the default template
  tmpl.limits.pids.on_limit = provider::OnLimit::report;
  const auto sandbox = rig.make(tmpl);
  std::ifstream in(bench::find_build() / "bin/sandbox-attack", std::ios::binary);
  auto tree = std::make_shared<MemoryTree>();
  tree->file("attack", {std::istreambuf_iterator<char>(in), {}}, true);
  if (!rig.put(sandbox, "", tree)) return state.SkipWithError("the attack could not be put in");
  engine::base::ask_for_short_slices();  // as the engine's process does; the sandbox is made already
  engine::shard::BenchEngine engine(false);
  std::vector<double> quiet;
  std::vector<double> beside;
  std::vector<double>* now = nullptr;
  auto ended = SteadyClock::now();
  engine.on_step = [&] {
    if (now != nullptr) now->push_back(since_us(ended));
    ended = SteadyClock::now();
  };
  const auto steps = [&](std::vector<double>* into, std::uint64_t count) {
    now = into;
    engine.start_run(static_cast<int>(count));
    for (const std::uint64_t until = engine.steps + count; engine.steps < until;) engine.poll();
  };
  steps(nullptr, 200);  // warm
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      steps(&quiet, kStepsOfTurn);
      const std::string key = "hog-" + std::to_string(turn);
      auto running = rig.begin(sandbox, rig.shell(for_ever(hog), key));
      steps(nullptr, 50);  // it is at work
      steps(&beside, kStepsOfTurn);
      (void)rig.kill_exec(sandbox, key);
      (void)running.get();
    }
  }
  state.counters["quiet_p50_us"] = percentile(quiet, 0.5);
  state.counters["quiet_p99_us"] = percentile(quiet, 0.99);
  state.counters["beside_p50_us"] = percentile(beside, 0.5);
  state.counters["beside_p99_us"] = percentile(beside, 0.99);
  state.counters["ratio_to_quiet"] = percentile(beside, 0.5) / percentile(quiet, 0.5);
  state.counters["ratio_to_quiet_p99"] = percentile(beside, 0.99) / percentile(quiet, 0.99);
  state.SetLabel(hog.name);
}
BENCHMARK(engine_step_beside_a_hog)
    ->ArgName("hog")
    ->DenseRange(0, std::size(kHogs) - 1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::sandbox_runtime::host

BENCHMARK_MAIN();
