// A whole engine without a server, for benches: runs of durable steps that do nothing, on RocksDB or whatever
// journal a bench brings. The workflow code, the decider, the codecs, the shard and the journal are the real
// ones. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/check.h"
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

using workflow::Json;

inline constexpr std::uint16_t kBenchPartitions = 8;
using BenchRunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;

inline workflow::Task<base::Result<Json>> steps_in_a_row(workflow::Context& ctx, Json input) {
  const int steps = input.at("steps").get<int>();
  for (int i = 0; i < steps; ++i) {
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

/// Where an engine keeps its records.
struct BenchStorage {
  std::shared_ptr<void> owner;  // of both
  view::View* view = nullptr;
  journal::Journal* journal = nullptr;
};
using OpenStorage =
    std::function<BenchStorage(const fold::Registry&, const std::string& folder, base::OnNews)>;

inline BenchStorage open_embedded(const fold::Registry& /*kinds*/, const std::string& folder,
                                  base::OnNews news) {
  struct Owner {
    std::unique_ptr<view::Database> database;
    std::unique_ptr<journal::RocksJournal> journal;
    std::unique_ptr<view::RocksView> view;
  };
  auto owner = std::make_shared<Owner>();
  owner->database = *view::Database::open({.path = folder + "/data"});
  owner->journal = *journal::RocksJournal::open(
      *owner->database,
      {.meta = {.journal_id = "bench", .partitions = kBenchPartitions}, .on_completion = news});
  owner->view = std::make_unique<view::RocksView>(*owner->database, 1, news);
  return {.owner = owner, .view = owner->view.get(), .journal = owner->journal.get()};
}

class BenchEngine {
 public:
  /// With `workers` the steps are theirs: whoever brings them lets them connect.
  explicit BenchEngine(bool threaded, const OpenStorage& open = open_embedded,
                       dispatch::WorkerPool* workers = nullptr)
      : folder_("/var/tmp"), elsewhere_(workers != nullptr) {
    kinds_.add(std::make_shared<BenchRunKind>());
    register_partition_kind(kinds_);
    workflows_.add("steps", "1", steps_in_a_row);
    if (!elsewhere_)
      activities_.add("noop", std::make_shared<dispatch::FunctionActivity>(at_once_, [this](const auto&) {
                        ++steps;
                        if (on_step) on_step();
                        return core::ActivityResult{.bytes = "null"};
                      }));
    storage_ = open(kinds_, folder_.path(), wakeup_.on_news());
    reads_ = std::make_unique<ViewReads>(*storage_.view);
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
        wakeup_.on_news(), nullptr, workers});
    set_ = *ShardSet::open({.partitions = kBenchPartitions},
                           {kinds_, *storage_.view, *reads_, *storage_.journal, *activator_, *dispatcher_});
  }

  void start_run(int steps_of_run) {
    const auto stream = core::StreamId::named(core::StreamKind::run, std::to_string(++started_));
    const core::DigestKey key("key", stream.bytes());
    run::StartRun start{.workflow = "steps", .version = "1", .tenant = "t", .user = "u"};
    start.input = key.make(core::Encoding::json, Json{{"steps", steps_of_run}}.dump());
    set_->submit({.target = stream,
                  .command = core::make_command<run::Command>(run::Command(std::move(start))),
                  .on_reply = [](base::Result<Reply> reply) { SG_CHECK(reply, reply.error().message); }});
  }

  /// Keeps `concurrent` runs of `length` steps going until so many steps are done in all.
  void go_on_until(std::uint64_t all_steps, std::uint64_t concurrent, int length) {
    while (steps < all_steps) {
      while (started_ < concurrent + steps / static_cast<std::uint64_t>(length)) start_run(length);
      poll();
    }
  }

  void poll() {
    const Now now{clock_.wall_ms(), clock_.monotonic_ns()};
    const bool worked = set_->poll(now);
    SG_CHECK(!set_->lost(), set_->lost()->message);
    if (elsewhere_) steps = dispatcher_->counters().started;
    if (!worked) wakeup_.sleep(std::chrono::milliseconds(1));
  }

  const std::string& folder() const { return folder_.path(); }
  const journal::Journal& journal() const { return *storage_.journal; }
  const ShardSet& set() const { return *set_; }
  std::uint64_t steps = 0;
  std::function<void()> on_step;  // in the loop, when a step is carried out

 private:
  tests::support::TempFolder folder_;
  const bool elsewhere_;
  base::SystemClock clock_;
  base::Wakeup wakeup_;
  AtOnce at_once_;
  fold::Registry kinds_;
  workflow::Registry workflows_;
  core::ActivityRegistry activities_;
  BenchStorage storage_;
  std::unique_ptr<ViewReads> reads_;
  std::unique_ptr<core::Activator> activator_;
  std::unique_ptr<dispatch::LocalDispatcher> dispatcher_;
  std::unique_ptr<ShardSet> set_;
  std::uint64_t started_ = 0;
};

}  // namespace sandglass::engine::shard
