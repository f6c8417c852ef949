// How fast the view of an engine is made anew from its topic alone: the records of real runs, with the rows
// that they cause, of all partitions side by side.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "engine/base/log.h"
#include "engine/fold/projector.h"
#include "engine/journal/kafka/client/client.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/journal/kafka/journal.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::shard {
namespace {

namespace kafka = journal::kafka;
using tests::support::Brokers;

constexpr std::uint64_t kSteps = 120'000;
constexpr std::uint64_t kRuns = 256;
constexpr int kLength = 10;

/// An engine's storage on a topic, without the lease.
struct OnTopic {
  OnTopic(const std::string& topic, const fold::Registry& kinds, const std::string& folder,
          base::OnNews news) {
    client = *kafka::client::KafkaClient::open({.settings = {.bootstrap = Brokers::one().bootstrap()},
                                                .topic = topic,
                                                .journal_id = topic,
                                                .partitions = kBenchPartitions});
    database = *view::Database::open({.path = folder + "/data", .log = false, .flush_on_close = false});
    view = std::make_unique<view::RocksView>(*database, 1, news);
    projector = std::make_unique<fold::Projector>(kinds, *view, kBenchPartitions);
    journal = *kafka::KafkaJournal::open(
        {.view = *view, .write = [this](auto groups) { return database->write(groups); }}, clock, random,
        {.meta = {.journal_id = topic, .partitions = kBenchPartitions},
         .brokers = [this](core::PartitionId partition,
                           int wake_fd) { return client->broker(partition, wake_fd); },
         .projection = [this](core::PartitionId partition, const core::OrderedRecord& record,
                              auto& changes) { return projector->project(partition, record, changes); },
         .on_completion = news});
    for (core::PartitionId partition = 0; partition < kBenchPartitions; ++partition)
      journal->begin_owning(partition);
  }
  /// Of all partitions together: from the first fence to the end of the last reading.
  double reading_ms() {
    base::MonotonicNs began = INT64_MAX;
    base::MonotonicNs ended = 0;
    for (core::PartitionId partition = 0; partition < kBenchPartitions; ++partition) {
      SG_CHECK(journal->wait_owned(partition), "cannot own the partition");
      const auto times = journal->takeover_times(partition);
      began = std::min(began, times.fenced);
      ended = std::max(ended, times.read);
    }
    return static_cast<double>(ended - began) / 1e6;
  }

  base::SystemClock clock;
  base::SystemRandom random;
  std::unique_ptr<kafka::client::KafkaClient> client;
  std::unique_ptr<view::Database> database;
  std::unique_ptr<view::RocksView> view;
  std::unique_ptr<fold::Projector> projector;
  std::unique_ptr<kafka::KafkaJournal> journal;
};

void view_of_runs_from_the_topic(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  const std::string topic = tests::support::new_topic_name();
  SG_CHECK(kafka::cluster::make_topic({.bootstrap = Brokers::one().bootstrap()},
                                      {.topic = topic, .partitions = kBenchPartitions}, 30'000),
           "cannot make the topic");
  std::uint64_t records = 0;
  {
    BenchEngine engine(true, [&](const fold::Registry& kinds, const std::string& folder, base::OnNews news) {
      auto owner = std::make_shared<OnTopic>(topic, kinds, folder, std::move(news));
      return BenchStorage{.owner = owner, .view = owner->view.get(), .journal = owner->journal.get()};
    });
    engine.go_on_until(kSteps, kRuns, kLength);
    records = engine.journal().counters().records;
  }
  fold::Registry kinds;
  kinds.add(std::make_shared<BenchRunKind>());
  register_partition_kind(kinds);
  double reading_ms = 0;
  double used_us = 0;
  for (auto _ : state) {
    const tests::support::TempFolder folder("/var/tmp");
    const double used = bench::cpu_us();
    const auto start = bench::SteadyClock::now();
    OnTopic anew(topic, kinds, folder.path(), [] {});
    reading_ms += anew.reading_ms();
    state.SetIterationTime(bench::since_us(start) / 1e6);
    used_us += bench::cpu_us() - used;
  }
  const auto all = static_cast<double>(state.iterations() * records);
  state.counters["records"] = static_cast<double>(records);
  state.counters["read_records_per_second"] = all / reading_ms * 1e3;
  state.counters["cpu_per_record_us"] = used_us / all;
}
BENCHMARK(view_of_runs_from_the_topic)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard
