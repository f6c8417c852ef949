// Steps per second: runs of ten sequential steps, each durable, on RocksDB; 1 to 512 of them at once. The
// workflow code, the decider, the codecs, the shard and the journal are the real ones; the step itself does
// nothing, in process.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <memory>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/base/wakeup.h"
#include "engine/dispatch/function_activity.h"
#include "engine/dispatch/local_dispatcher.h"
#include "engine/journal/rocksdb/journal.h"
#include "engine/run/codec/codec.h"
#include "engine/run/decider.h"
#include "engine/run/view/run_view.h"
#include "engine/shard/shard_set.h"
#include "engine/view/rocksdb/view.h"
#include "engine/workflow/activator.h"
#include "engine/workflow/context.h"
#include "engine/workflow/registry.h"
#include "engine/workflow/threaded_activator.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::shard {
namespace {

using workflow::Context;
using workflow::Json;
using workflow::Task;
using RunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;

constexpr int kSteps = 10;
constexpr std::uint16_t kPartitions = 8;

double cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return micros(usage.ru_utime) + micros(usage.ru_stime);
}

Task<base::Result<Json>> ten_steps(Context& ctx, Json input) {
  for (int i = 0; i < kSteps; ++i) {
    auto done = co_await ctx.step("step", "noop", i);
    if (!done) co_return std::unexpected(done.error());
  }
  co_return input;
}

/// Runs closures at once, on the loop's thread: the price of a thread pool is not the engine's.
class AtOnce final : public base::TaskRunner {
 public:
  void run(std::move_only_function<void()> closure) override { closure(); }
};

class Engine {
 public:
  explicit Engine(bool threaded) : folder_("/var/tmp") {
    kinds_.add(std::make_shared<RunKind>());
    register_partition_kind(kinds_);
    workflows_.add("ten", "1", ten_steps);
    activities_.add("noop", std::make_shared<dispatch::FunctionActivity>(at_once_, [this](const auto&) {
                      ++steps;
                      return core::ActivityResult{.bytes = "null"};
                    }));
    database_ = *view::Database::open({.path = folder_.file("data")});
    journal_ = *journal::RocksJournal::open(
        *database_,
        {.meta = {.journal_id = "bench", .partitions = kPartitions}, .on_completion = wakeup_.on_news()});
    view_ = std::make_unique<view::RocksView>(*database_, 1, wakeup_.on_news());
    reads_ = std::make_unique<ViewReads>(*view_);
    const auto tenant_key = [](const std::string&) { return std::string("key"); };
    if (threaded) {
      activator_ = std::make_unique<workflow::ThreadedActivator>(
          workflows_, tenant_key, clock_, workflow::ThreadedActivatorOptions{.wake = wakeup_.on_news()});
    } else {
      activator_ = std::make_unique<workflow::InlineActivator>(workflows_, tenant_key);
    }
    dispatcher_ = std::make_unique<dispatch::LocalDispatcher>(dispatch::DispatchPorts{
        activities_, nullptr, *reads_, clock_,
        [](const core::StreamId& stream) { return core::DigestKey("key", stream.bytes()); },
        wakeup_.on_news()});
    set_ = *ShardSet::open({.partitions = kPartitions},
                           {kinds_, *view_, *reads_, *journal_, *activator_, *dispatcher_});
  }

  void start_run() {
    const auto stream = core::StreamId::named(core::StreamKind::run, std::to_string(++started_));
    const core::DigestKey key("key", stream.bytes());
    run::StartRun start{.workflow = "ten", .version = "1", .tenant = "t", .user = "u"};
    start.input = key.make(core::Encoding::json, "{}");
    set_->submit({.target = stream,
                  .command = core::make_command<run::Command>(run::Command(std::move(start))),
                  .on_reply = [](base::Result<Reply> reply) { SG_CHECK(reply, reply.error().message); }});
  }

  void poll() {
    const Now now{clock_.wall_ms(), clock_.monotonic_ns()};
    const bool worked = set_->poll(now);
    SG_CHECK(!set_->lost(), set_->lost()->message);
    if (!worked) wakeup_.sleep(std::chrono::milliseconds(1));
  }

  const journal::Journal& journal() const { return *journal_; }
  const ShardSet& set() const { return *set_; }
  std::uint64_t steps = 0;

 private:
  tests::support::TempFolder folder_;
  base::SystemClock clock_;
  base::Wakeup wakeup_;
  AtOnce at_once_;
  fold::Registry kinds_;
  workflow::Registry workflows_;
  core::ActivityRegistry activities_;
  std::unique_ptr<view::Database> database_;
  std::unique_ptr<journal::RocksJournal> journal_;
  std::unique_ptr<view::RocksView> view_;
  std::unique_ptr<ViewReads> reads_;
  std::unique_ptr<core::Activator> activator_;
  std::unique_ptr<dispatch::LocalDispatcher> dispatcher_;
  std::unique_ptr<ShardSet> set_;
  std::uint64_t started_ = 0;
};

/// Keeps `range(0)` runs going: whenever ten more steps are done, another run starts.
void ten_step_runs(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  const auto concurrent = static_cast<std::uint64_t>(state.range(0));
  const bool threaded = state.range(1) != 0;
  Engine engine(threaded);
  const auto total = std::max<std::uint64_t>(4000, concurrent * 200);
  std::uint64_t started = 0;
  const auto keep_going = [&] {
    while (started < concurrent + engine.steps / kSteps) {
      engine.start_run();
      ++started;
    }
  };
  while (engine.steps < total / 10) {  // warm
    keep_going();
    engine.poll();
  }
  const std::uint64_t before = engine.steps;
  const double cpu = cpu_us();
  const auto journal = engine.journal().counters();
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    while (engine.steps - before < total) {
      keep_going();
      engine.poll();
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto after = engine.journal().counters();
  const auto steps = static_cast<double>(engine.steps - before);
  state.counters["steps_per_second"] = steps / seconds;
  state.counters["cpu_per_step_us"] = (cpu_us() - cpu) / steps;
  state.counters["puts_per_step"] = static_cast<double>(after.puts - journal.puts) / steps;
  state.counters["per_step_bytes"] = static_cast<double>(after.bytes - journal.bytes) / steps;
  state.counters["steps_per_sync"] = steps / static_cast<double>(after.syncs - journal.syncs);
  state.counters["late_per_step"] = static_cast<double>(engine.set().counters().late) / steps;
  state.SetLabel(threaded ? "10-step runs, activation thread" : "10-step runs, activation in the loop");
}
BENCHMARK(ten_step_runs)
    ->ArgNames({"runs", "threaded"})
    ->ArgsProduct({{1, 16, 64, 256, 512}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard

BENCHMARK_MAIN();
