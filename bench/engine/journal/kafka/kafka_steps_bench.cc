// What a whole engine does on Kafka: 256 runs of ten durable steps at once, in turns with the same engine on
// its embedded journal, and with a plain producer that writes what such an engine wrote, batch by batch, with
// as many messages on their way, or four times as many; in one run on one machine, with brokers that have
// been at work for a while.
#include <benchmark/benchmark.h>

#include <array>

#include "bench/engine/journal/kafka/plain_producer.h"
#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "engine/base/log.h"
#include "engine/codec/record.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/server/compose/storage.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::shard {
namespace {

using bench::since_us;
using bench::SteadyClock;
using tests::support::Brokers;
using tests::support::new_topic_name;
namespace kafka = journal::kafka;

constexpr std::uint64_t kRuns = 256;
constexpr int kLength = 10;
constexpr std::uint64_t kSteps = 30'000;  // of a round
constexpr std::uint64_t kWarmSteps = kSteps / 10;
constexpr std::uint64_t kBrokerSteps = 200'000;  // until a broker's code is compiled
constexpr int kRounds = 5;
constexpr std::size_t kAhead = 4 * kRuns;  // messages of a producer that waits for nothing but its own window

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

struct Noted {
  core::PartitionId partition = 0;
  std::vector<kafka::Message> messages;
};

/// Notes what an engine gives its journal.
class NotingJournal final : public journal::Journal {
 public:
  NotingJournal(BenchStorage storage, std::vector<Noted>& noted)
      : storage_(std::move(storage)), noted_(noted) {}

  base::Result<journal::Ownership> own(core::PartitionId partition) override {
    return storage_.journal->own(partition);
  }
  journal::Ticket submit(journal::Batch batch) override {
    Noted& noted = noted_.emplace_back(Noted{.partition = batch.partition, .messages = {}});
    for (const core::OrderedRecord& each : batch.records) {
      noted.messages.push_back(kafka::encode_record("bench", kafka::Kind::record, each.link, each.link.leaf,
                                                    codec::encode_record(each.record)));
    }
    return storage_.journal->submit(std::move(batch));
  }
  void poll(std::vector<journal::Completed>& completed) override { storage_.journal->poll(completed); }
  journal::JournalCounters counters() const override { return storage_.journal->counters(); }

 private:
  BenchStorage storage_;
  std::vector<Noted>& noted_;
};

/// What an engine on Kafka writes in the first steps.
std::vector<Noted> batches_of(std::uint64_t steps) {
  std::vector<Noted> noted;
  BenchEngine engine(true, [&](const fold::Registry& kinds, const std::string& folder, base::OnNews news) {
    BenchStorage storage = open_on_kafka(kinds, folder, std::move(news));
    view::View* view = storage.view;
    auto noting = std::make_shared<NotingJournal>(std::move(storage), noted);
    return BenchStorage{.owner = noting, .view = view, .journal = noting.get()};
  });
  engine.go_on_until(steps, kRuns, kLength);
  return noted;
}

/// Seconds of a round, starting and ending the runs included.
double round_of(const OpenStorage& open, std::uint64_t steps) {
  BenchEngine engine(true, open);
  engine.go_on_until(kWarmSteps, kRuns, kLength);
  const std::uint64_t before = engine.steps;
  const auto start = SteadyClock::now();
  engine.go_on_until(before + steps, kRuns, kLength);
  return since_us(start) / 1e6;
}

/// Seconds of the plain producer for the batches behind the first ones, with so many messages on their way.
double plain_round(const std::vector<Noted>& batches, std::size_t window) {
  const std::string topic = new_topic_name();
  SG_CHECK(kafka::cluster::make_topic({.bootstrap = Brokers::one().bootstrap()},
                                      {.topic = topic, .partitions = kBenchPartitions}, 30'000),
           "cannot make the topic");
  kafka::PlainProducer plain(Brokers::one().bootstrap(), topic);
  const std::size_t warm = batches.size() * kWarmSteps / (kWarmSteps + kSteps);
  auto start = SteadyClock::now();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i == warm) start = SteadyClock::now();
    const std::size_t size = batches[i].messages.size();
    plain.drain(window - std::min(size, window));
    for (const kafka::Message& message : batches[i].messages) plain.produce(message, batches[i].partition);
  }
  plain.drain(0);
  return since_us(start) / 1e6;
}

void steps_of_256_runs(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  round_of(open_on_kafka, kBrokerSteps);
  const std::vector<Noted> batches = batches_of(kWarmSteps + kSteps);
  double on_kafka = 0;
  double embedded = 0;
  double plain = 0;
  double plain_ahead = 0;
  for (auto _ : state) {
    embedded += round_of(open_embedded, kSteps);
    plain += plain_round(batches, kRuns);
    plain_ahead += plain_round(batches, kAhead);
    const double seconds = round_of(open_on_kafka, kSteps);
    on_kafka += seconds;
    state.SetIterationTime(seconds);
  }
  const auto steps = static_cast<double>(state.iterations()) * kSteps;
  state.counters["steps_per_second"] = steps / on_kafka;
  state.counters["embedded_steps_per_second"] = steps / embedded;
  state.counters["plain_steps_per_second"] = steps / plain;
  state.counters["plain_ahead_steps_per_second"] = steps / plain_ahead;
  state.counters["ratio_to_embedded"] = embedded / on_kafka;
  state.counters["ratio_to_plain"] = plain / on_kafka;
  state.counters["ratio_to_plain_ahead"] = plain_ahead / on_kafka;
}
BENCHMARK(steps_of_256_runs)->UseManualTime()->Iterations(kRounds)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard
