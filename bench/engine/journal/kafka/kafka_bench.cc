// What the Kafka journal costs beside a plain idempotent producer with the same messages on the same broker,
// in turns in one run; how long a takeover by a warm standby takes; how fast a deleted view is made anew.
#include <benchmark/benchmark.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "bench/engine/journal/kafka/plain_producer.h"
#include "bench/measure.h"
#include "bench/programs.h"
#include "tests/engine/journal/kafka/brokers/kafka_store.h"

namespace sandglass::engine::journal::kafka {
namespace {

using bench::percentile;
using bench::since_us;
using bench::SteadyClock;

constexpr std::size_t kRecordBytes = 220;
constexpr std::size_t kBatch = 256;
constexpr std::size_t kBatchesInFlight = 4;

/// A journal as the engine uses it: wakes the waiting thread when something is durable.
class Bench {
 public:
  explicit Bench(const std::string& topic) : node_(KafkaStore::bootstrap(), topic) {
    journal_ = node_.journal({.on_completion = [this] {
      const std::lock_guard lock(mutex_);
      wake_.notify_one();
    }});
  }

  Ownership own() {
    const auto owned = journal_->own(0);
    SG_CHECK(owned, owned.error().message);
    writer_.emplace(0, *owned);
    return *owned;
  }
  Batch batch(std::size_t records) { return writer_->batch(records, kRecordBytes); }
  void submit(Batch made) {
    journal_->submit(std::move(made));
    ++submitted_;
  }
  void drain(std::size_t most) {
    std::unique_lock lock(mutex_);
    while (submitted_ - told_.size() > most) {
      journal_->poll(told_);
      if (submitted_ - told_.size() <= most) break;
      wake_.wait_for(lock, std::chrono::milliseconds(10));
    }
    SG_CHECK(told_.empty() || told_.back().completion == Completion::durable, told_.back().message);
  }
  KafkaJournal& journal() { return *journal_; }

 private:
  Node node_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::unique_ptr<KafkaJournal> journal_;
  std::optional<Writer> writer_;
  std::vector<Completed> told_;
  std::size_t submitted_ = 0;
};

std::vector<Message> messages_of(const Batch& batch) {
  std::vector<Message> messages;
  base::Hash256 previous;
  for (const core::OrderedRecord& each : batch.records) {
    messages.push_back(
        encode_record("bench", Kind::record, each.link, previous, codec::encode_record(each.record)));
    previous = each.link.chain;
  }
  return messages;
}

void single_record(benchmark::State& state) {
  Bench bench(make_test_topic(KafkaStore::bootstrap()));
  PlainProducer plain(KafkaStore::bootstrap(), make_test_topic(KafkaStore::bootstrap()));
  bench.own();
  std::vector<double> ours;
  std::vector<double> theirs;
  for (auto _ : state) {
    Batch batch = bench.batch(1);
    const auto messages = messages_of(batch);
    auto start = SteadyClock::now();
    plain.produce(messages.front());
    plain.drain(0);
    theirs.push_back(since_us(start));
    start = SteadyClock::now();
    bench.submit(std::move(batch));
    bench.drain(0);
    ours.push_back(since_us(start));
    state.SetIterationTime(ours.back() / 1e6);
  }
  state.counters["p50_us"] = percentile(ours, 0.5);
  state.counters["p99_us"] = percentile(ours, 0.99);
  state.counters["plain_p50_us"] = percentile(theirs, 0.5);
  state.counters["ratio_to_plain"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
}
BENCHMARK(single_record)->UseManualTime()->Iterations(3000)->Unit(benchmark::kMicrosecond);

/// Both make their records within the time: what is compared is the way to the broker and, for ours, to the
/// view.
void batches_of_256(benchmark::State& state) {
  Bench bench(make_test_topic(KafkaStore::bootstrap()));
  PlainProducer plain(KafkaStore::bootstrap(), make_test_topic(KafkaStore::bootstrap()));
  bench.own();
  Writer theirs(0, {});
  double ours_us = 0;
  double theirs_us = 0;
  constexpr int kRound = 100;
  for (auto _ : state) {
    auto start = SteadyClock::now();
    for (int i = 0; i < kRound; ++i) {
      bench.submit(bench.batch(kBatch));
      bench.drain(kBatchesInFlight);
    }
    bench.drain(0);
    ours_us += since_us(start);
    start = SteadyClock::now();
    for (int i = 0; i < kRound; ++i) {
      for (const Message& message : messages_of(theirs.batch(kBatch, kRecordBytes))) plain.produce(message);
      plain.drain(kBatchesInFlight * kBatch);
    }
    plain.drain(0);
    theirs_us += since_us(start);
  }
  const auto records = static_cast<double>(state.iterations()) * kRound * kBatch;
  state.counters["records_per_second"] = records / ours_us * 1e6;
  state.counters["plain_records_per_second"] = records / theirs_us * 1e6;
  state.counters["ratio_to_plain"] = theirs_us / ours_us;
}
BENCHMARK(batches_of_256)->Iterations(6)->Unit(benchmark::kMillisecond);

/// From the order to own to the first record acknowledged; the former owner has 512 records unpublished.
void takeover_by_a_warm_standby(benchmark::State& state) {
  const std::string topic = make_test_topic(KafkaStore::bootstrap());
  auto owner = std::make_unique<Bench>(topic);
  owner->own();
  std::vector<double> all, fenced, read, found, published, first;
  for (auto _ : state) {
    auto standby = std::make_unique<Bench>(topic);
    standby->journal().stand_by(0);
    for (int i = 0; i < 2; ++i) owner->submit(owner->batch(kBatch));
    owner->drain(0);
    const core::Sequence head = owner->journal().standing(0).head.sequence;
    while (standby->journal().standing(0).head.sequence < head) std::this_thread::yield();
    const auto start = SteadyClock::now();
    standby->own();
    const double owned = since_us(start);
    standby->submit(standby->batch(1));
    standby->drain(0);
    all.push_back(since_us(start) / 1e3);
    first.push_back(all.back() - owned / 1e3);
    const Takeover::Times times = standby->journal().takeover_times(0);
    const auto ms = [](base::MonotonicNs from, base::MonotonicNs to) {
      return static_cast<double>(to - from) / 1e6;
    };
    fenced.push_back(ms(times.began, times.fenced));
    read.push_back(ms(times.fenced, times.read));
    found.push_back(ms(times.read, times.found));
    published.push_back(ms(times.found, times.owned));
    state.SetIterationTime(all.back() / 1e3);
    owner = std::move(standby);
  }
  const auto p50 = [&](const char* name, const std::vector<double>& values) {
    state.counters[name] = percentile(values, 0.5);
  };
  p50("p50_ms", all);
  p50("fence_ms", fenced);
  p50("catch_up_ms", read);
  p50("published_ms", found);
  p50("republish_and_epoch_ms", published);
  p50("first_record_ms", first);
}
BENCHMARK(takeover_by_a_warm_standby)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);

/// The same without brokers: messages that a client has already got are checked and written to an empty view.
void view_from_messages_at_hand(benchmark::State& state) {
  constexpr std::size_t kRecords = 256 * kBatch;
  Writer writer(0, {.epoch = 1, .chain = codec::genesis_chain(kMeta.journal_id, 0)});
  std::vector<ReadMessage> messages;
  base::Hash256 previous = writer.at().chain;
  messages.reserve(kRecords);
  for (std::size_t i = 0; i < kRecords; ++i) {
    const core::OrderedRecord each = writer.next(kRecordBytes);
    messages.push_back(read_message(encode_record(kMeta.journal_id, i == 0 ? Kind::epoch : Kind::record,
                                                  each.link, previous, codec::encode_record(each.record))));
    messages.back().offset = static_cast<std::int64_t>(i);
    previous = each.link.chain;
  }
  double seconds = 0;
  for (auto _ : state) {
    const tests::support::TempFolder folder("/var/tmp");
    auto database = *view::Database::open({.path = folder.file("view"), .log = false});
    const view::RocksView rows(*database, 0);
    auto opened = AppliedView::open(
        {.view = rows, .write = [&](auto groups) { return database->write(groups); }}, kMeta, 0);
    const Projection none;
    CatchUp catch_up(*opened, none);
    catch_up.begin(true);
    auto got = messages;
    const auto start = SteadyClock::now();
    for (ReadMessage& message : got) SG_CHECK(catch_up.take(std::move(message)), "a message is refused");
    SG_CHECK(catch_up.flush(), "the view cannot be written");
    seconds += since_us(start) / 1e6;
    SG_CHECK(catch_up.rule().head().sequence == kRecords, "records are missing");
  }
  state.counters["records_per_second"] = static_cast<double>(state.iterations()) * kRecords / seconds;
}
BENCHMARK(view_from_messages_at_hand)->Iterations(5)->Unit(benchmark::kMillisecond);

/// The whole takeover, and of it the readings alone. The former owner was killed; what it had not published,
/// the first takeover publishes again, and the next ones read twice.
void view_from_the_topic_alone(benchmark::State& state) {
  const std::string topic = make_test_topic(KafkaStore::bootstrap());
  constexpr int kBatches = 2000;
  {
    Bench owner(topic);
    owner.own();
    for (int i = 0; i < kBatches; ++i) {
      owner.submit(owner.batch(kBatch));
      owner.drain(kBatchesInFlight);
    }
    owner.drain(0);
  }
  double all_us = 0;
  double reading_us = 0;
  double used_us = 0;
  for (auto _ : state) {
    Bench anew(topic);
    const double used = bench::cpu_us();
    const auto start = SteadyClock::now();
    const Ownership owned = anew.own();
    all_us += since_us(start);
    used_us += bench::cpu_us() - used;
    const Takeover::Times times = anew.journal().takeover_times(0);
    reading_us += static_cast<double>(times.found - times.fenced) / 1e3;
    SG_CHECK(owned.last_sequence > kBatches * kBatch, "records are missing");
  }
  const double records = static_cast<double>(state.iterations()) * kBatches * kBatch;
  state.counters["records_per_second"] = records / all_us * 1e6;
  state.counters["read_records_per_second"] = records / reading_us * 1e6;
  state.counters["cpu_per_record_us"] = used_us / records;
}
BENCHMARK(view_from_the_topic_alone)->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::journal::kafka

int main(int argc, char** argv) {
  sandglass::bench::find_build();  // brokers are started by a script of the source beside it
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
