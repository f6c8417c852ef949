// What a whole engine does on Kafka: 256 runs of ten durable steps at once, in turns with the same engine on
// its embedded journal, in one run on one machine.
#include <benchmark/benchmark.h>

#include <array>

#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "engine/base/log.h"
#include "engine/server/compose/storage.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::shard {
namespace {

using bench::since_us;
using bench::SteadyClock;
using tests::support::Brokers;
using tests::support::new_topic_name;

constexpr std::uint64_t kRuns = 256;
constexpr int kLength = 10;
constexpr std::uint64_t kSteps = 20'000;  // of a round
constexpr int kRounds = 3;

/// As the server opens it.
BenchStorage open_on_kafka(const fold::Registry& kinds, const std::string& folder, base::OnNews news) {
  struct Owner {
    base::SystemClock machine_clock;
    base::SteadyClock clock{machine_clock};
    base::SystemRandom random;
    std::string tenant_key = "key";
    server::Config config;
    std::optional<base::DataFolder> folder;
    server::compose::Storage storage;
  };
  auto owner = std::make_shared<Owner>();
  owner->config.journal = server::JournalKind::kafka;
  owner->config.kafka = {.bootstrap = Brokers::one().bootstrap(), .topic = new_topic_name()};
  owner->config.engine.partitions = kBenchPartitions;
  auto opened_folder = base::DataFolder::open(folder + "/engine", owner->random);
  SG_CHECK(opened_folder, opened_folder.error().message);
  owner->folder = std::move(*opened_folder);
  auto opened = server::compose::open_storage({.folder = *owner->folder,
                                               .config = owner->config,
                                               .kinds = kinds,
                                               .tenant_key = owner->tenant_key,
                                               .clock = owner->clock,
                                               .random = owner->random,
                                               .wake = news,
                                               .completed = news});
  SG_CHECK(opened, opened.error().message);
  owner->storage = std::move(*opened);
  return {.owner = owner, .view = owner->storage.view.get(), .journal = owner->storage.journal.get()};
}

/// Seconds of a round, starting and ending the runs included.
double round_of(const OpenStorage& open) {
  BenchEngine engine(true, open);
  engine.go_on_until(kSteps / 10, kRuns, kLength);  // warm
  const std::uint64_t before = engine.steps;
  const auto start = SteadyClock::now();
  engine.go_on_until(before + kSteps, kRuns, kLength);
  return since_us(start) / 1e6;
}

void steps_of_256_runs(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  double on_kafka = 0;
  double embedded = 0;
  for (auto _ : state) {
    embedded += round_of(open_embedded);
    const double seconds = round_of(open_on_kafka);
    on_kafka += seconds;
    state.SetIterationTime(seconds);
  }
  const auto steps = static_cast<double>(state.iterations()) * kSteps;
  state.counters["steps_per_second"] = steps / on_kafka;
  state.counters["embedded_steps_per_second"] = steps / embedded;
  state.counters["ratio_to_embedded"] = embedded / on_kafka;
}
BENCHMARK(steps_of_256_runs)->UseManualTime()->Iterations(kRounds)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard
