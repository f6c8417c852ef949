// What the RocksDB journal costs: a single synced record against this machine's own fdatasync, measured in
// turns in the same run, and busy batches of 256 records of 220 bytes.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "bench/measure.h"
#include "engine/base/check.h"
#include "engine/base/unique_fd.h"
#include "engine/codec/record.h"
#include "engine/journal/rocksdb/journal.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::journal {
namespace {

using bench::percentile;
using bench::since_us;
using bench::SteadyClock;

constexpr std::size_t kRecordBytes = 220;

double cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& time) {
    return time.tv_sec * 1e6 + static_cast<double>(time.tv_usec);
  };
  return micros(usage.ru_utime) + micros(usage.ru_stime);
}

/// The journal as the engine uses it: wakes the waiting thread when something is durable.
class Bench {
 public:
  Bench() : folder_("/var/tmp") {
    database_ = *view::Database::open({.path = folder_.file("journal")});
    journal_ = *RocksJournal::open(
        *database_, {.meta = {.journal_id = "bench", .partitions = 1}, .on_completion = [this] {
                       const std::lock_guard lock(mutex_);
                       wake_.notify_one();
                     }});
    at_ = *journal_->own(0);
  }

  Batch batch(std::size_t records) {
    Batch made{.partition = 0};
    for (std::size_t i = 0; i < records; ++i) {
      core::StoredRecord record{
          .stream = stream_, .seq = ++at_.last_sequence, .header = std::string(kRecordBytes, 'h')};
      const base::Hash256 leaf = codec::leaf_hash(record);
      at_.chain = codec::chain_hash(at_.chain, 0, record.seq, at_.epoch, leaf);
      const core::OrderLink link{.sequence = record.seq,
                                 .epoch = at_.epoch,
                                 .stream = stream_,
                                 .stream_seq = record.seq,
                                 .leaf = leaf,
                                 .chain = at_.chain};
      made.records.push_back({link, std::move(record)});
    }
    return made;
  }
  /// Waits until no more than `most` tickets are open.
  void drain(std::size_t most) {
    std::unique_lock lock(mutex_);
    while (submitted_ - told_.size() > most) {
      journal_->poll(told_);
      if (submitted_ - told_.size() <= most) break;
      wake_.wait_for(lock, std::chrono::milliseconds(10));
    }
    SG_CHECK(told_.empty() || told_.back().completion == Completion::durable, told_.back().message);
  }
  void submit(Batch made) {
    journal_->submit(std::move(made));
    ++submitted_;
  }
  const RocksJournal& journal() const { return *journal_; }
  const std::string& folder() const { return folder_.path(); }

 private:
  tests::support::TempFolder folder_;
  core::StreamId stream_ = core::StreamId::named(core::StreamKind::test, "bench");
  std::unique_ptr<view::Database> database_;
  std::unique_ptr<RocksJournal> journal_;
  Ownership at_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Completed> told_;
  std::size_t submitted_ = 0;
};

void single_record(benchmark::State& state) {
  Bench bench;
  const base::UniqueFd raw(
      open((bench.folder() + "/raw").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  SG_CHECK(raw.valid(), "cannot make a file");
  const std::string bytes(2 * kRecordBytes, 'r');
  std::vector<double> ours;
  std::vector<double> theirs;
  for (auto _ : state) {
    auto start = SteadyClock::now();
    SG_CHECK(write(raw.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "write");
    SG_CHECK(fdatasync(raw.get()) == 0, "fdatasync");
    theirs.push_back(since_us(start));
    start = SteadyClock::now();
    bench.submit(bench.batch(1));
    bench.drain(0);
    ours.push_back(since_us(start));
    state.SetIterationTime(ours.back() / 1e6);
  }
  state.counters["p50_us"] = percentile(ours, 0.5);
  state.counters["p99_us"] = percentile(ours, 0.99);
  state.counters["fdatasync_p50_us"] = percentile(theirs, 0.5);
  state.counters["ratio_to_fdatasync"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
  state.SetLabel("1 record of 220 bytes, synced");
}
BENCHMARK(single_record)->UseManualTime()->Iterations(2000)->Unit(benchmark::kMicrosecond);

void batches_of_256(benchmark::State& state) {
  Bench bench;
  const double cpu = cpu_us();
  const auto start = SteadyClock::now();
  for (auto _ : state) {
    bench.submit(bench.batch(256));
    bench.drain(4);
  }
  bench.drain(0);
  const double wall = since_us(start);
  const JournalCounters counters = bench.journal().counters();
  const auto records = static_cast<double>(counters.records);
  state.counters["records_per_second"] = records / wall * 1e6;
  state.counters["cpu_per_record_us"] = (cpu_us() - cpu) / records;
  state.counters["puts_per_record"] = static_cast<double>(counters.puts) / records;
  state.counters["per_record_bytes"] = static_cast<double>(counters.bytes) / records;
  state.counters["records_per_sync"] = records / static_cast<double>(counters.syncs);
  state.SetLabel(
      "batches of 256 records of 220 bytes, up to 5 in flight, making and hashing the records included");
}
BENCHMARK(batches_of_256)->Iterations(2000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sandglass::engine::journal

BENCHMARK_MAIN();
