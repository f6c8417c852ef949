// Steps per second: runs of ten sequential steps, each durable, on RocksDB; 1 to 512 of them at once. The
// workflow code, the decider, the codecs, the shard and the journal are the real ones; the step itself does
// nothing, in process.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/base/unique_fd.h"
#include "engine/view/rocksdb/marking.h"

namespace sandglass::engine::view {

/// Stands in the place of Marking::wrote() here (--wrap in CMakeLists.txt), so that one process can measure
/// with the mark and without it (decision 5).
bool marks = true;
base::Status real_wrote(Marking* marking) asm("__real__ZN9sandglass6engine4view7Marking5wroteEv");
base::Status wrote_if_wanted(Marking* marking) asm("__wrap__ZN9sandglass6engine4view7Marking5wroteEv");
base::Status wrote_if_wanted(Marking* marking) {
  return marks ? real_wrote(marking) : base::Status();
}

}  // namespace sandglass::engine::view

namespace sandglass::engine::shard {
namespace {

using bench::cpu_us;

/// Keeps `concurrent` runs of `length` steps going until `total` steps are done, and tells what a step has
/// cost.
void measure(benchmark::State& state, std::uint64_t concurrent, int length, std::uint64_t total,
             bool threaded) {
  base::set_log_level(base::LogLevel::warning);
  BenchEngine engine(threaded);
  engine.go_on_until(total / 10, concurrent, length);  // warm
  const std::uint64_t before = engine.steps;
  const double cpu = cpu_us();
  const auto journal = engine.journal().counters();
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) engine.go_on_until(before + total, concurrent, length);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto after = engine.journal().counters();
  const auto steps = static_cast<double>(engine.steps - before);
  state.counters["steps_per_second"] = steps / seconds;
  state.counters["cpu_per_step_us"] = (cpu_us() - cpu) / steps;
  state.counters["puts_per_step"] = static_cast<double>(after.puts - journal.puts) / steps;
  state.counters["per_step_bytes"] = static_cast<double>(after.bytes - journal.bytes) / steps;
  state.counters["steps_per_sync"] = steps / static_cast<double>(after.syncs - journal.syncs);
  state.counters["late_per_step"] = static_cast<double>(engine.set().counters().late) / steps;
}

/// Starting and ending the runs included.
void ten_step_runs(benchmark::State& state) {
  const auto concurrent = static_cast<std::uint64_t>(state.range(0));
  const bool threaded = state.range(1) != 0;
  measure(state, concurrent, 10, std::max<std::uint64_t>(4000, concurrent * 200), threaded);
  state.SetLabel(threaded ? "10-step runs, activation thread" : "10-step runs, activation in the loop");
}
BENCHMARK(ten_step_runs)
    ->ArgNames({"runs", "threaded"})
    ->ArgsProduct({{1, 16, 64, 256, 512}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// J9: what a step in the middle of a run costs; snapshots every 64 events included.
void steps_in_mid_run(benchmark::State& state) {
  measure(state, 64, 1000, 60'000, false);
  state.SetLabel("64 runs of 1000 steps, activation in the loop");
}
BENCHMARK(steps_in_mid_run)->Iterations(1)->Unit(benchmark::kMillisecond);

/// What the mark beside the journal costs: the same work in turns, with it and without it.
void durable_mark(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  constexpr int kRounds = 7;
  const auto concurrent = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t total = std::max<std::uint64_t>(2000, concurrent * 80);
  struct Cost {
    std::vector<double> wall_us, cpu_us;
  };
  Cost with, without;
  const auto round = [&](bool marked) {
    view::marks = marked;
    BenchEngine engine(false);
    engine.go_on_until(total / 10, concurrent, 10);  // warm
    const std::uint64_t before = engine.steps;
    const double cpu = cpu_us();
    const auto begin = std::chrono::steady_clock::now();
    engine.go_on_until(before + total, concurrent, 10);
    const auto steps = static_cast<double>(engine.steps - before);
    Cost& cost = marked ? with : without;
    cost.wall_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / steps);
    cost.cpu_us.push_back((cpu_us() - cpu) / steps);
  };
  for (auto _ : state) {
    for (int i = 0; i < kRounds; ++i) {
      round(i % 2 == 0);
      round(i % 2 != 0);
    }
  }
  view::marks = true;
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  state.counters["wall_per_step_us"] = median(with.wall_us);
  state.counters["cpu_per_step_us"] = median(with.cpu_us);
  state.counters["ratio_to_no_mark"] = median(with.wall_us) / median(without.wall_us);
  state.counters["ratio_to_no_mark_cpu"] = median(with.cpu_us) / median(without.cpu_us);
  state.SetLabel("with the mark against without it, medians of " + std::to_string(kRounds) + " rounds each");
}
BENCHMARK(durable_mark)
    ->ArgName("runs")
    ->Arg(1)
    ->Arg(64)
    ->Arg(512)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// One run alone: from a step's end to the start of the next, against this machine's own fdatasync in turns.
void single_step(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  BenchEngine engine(state.range(0) != 0);
  const base::UniqueFd raw(
      open((engine.folder() + "/raw").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  SG_CHECK(raw.valid(), "cannot make a file");
  const std::string bytes(512, 'r');
  const auto us_since = [](auto from) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
  };
  std::vector<double> ours;
  std::vector<double> theirs;
  auto ended = std::chrono::steady_clock::now();
  engine.on_step = [&] {
    ours.push_back(us_since(ended));
    const auto begin = std::chrono::steady_clock::now();
    SG_CHECK(write(raw.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "write");
    SG_CHECK(fdatasync(raw.get()) == 0, "fdatasync");
    theirs.push_back(us_since(begin));
    ended = std::chrono::steady_clock::now();
  };
  constexpr int kMeasured = 3000;
  engine.start_run(kMeasured);
  for (auto _ : state) {
    while (engine.steps < kMeasured) engine.poll();
  }
  const auto percentile = [](std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  state.counters["p50_us"] = percentile(ours, 0.5);
  state.counters["p99_us"] = percentile(ours, 0.99);
  state.counters["fdatasync_p50_us"] = percentile(theirs, 0.5);
  state.counters["ratio_to_fdatasync"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
  state.SetLabel(state.range(0) != 0 ? "one run, activation thread" : "one run, activation in the loop");
}
BENCHMARK(single_step)->ArgName("threaded")->Arg(0)->Arg(1)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard

BENCHMARK_MAIN();
