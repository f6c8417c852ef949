// J10 on RocksDB: what opening reads is what is in flight, however much is finished or asleep. Counted in
// rows given and in deleted rows that were stepped over, not in time.
#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "engine/journal/rocksdb/journal.h"
#include "engine/shard/shard_set.h"
#include "engine/view/keys.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_kind.h"

namespace sandglass::engine::shard {
namespace {

using tests::test_command;
using tests::test_stream;

/// Reads on the caller's thread and counts what that costs.
class CountingView final : public view::View {
 public:
  explicit CountingView(const view::Database& database) : database_(database) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    start();
  }
  view::ReadTicket submit(view::ScanRequest request) override {
    waiting_.push_back({++last_, scan_now(request)});
    return last_;
  }
  void poll(std::vector<view::ReadAnswer>& answers) override {
    std::ranges::move(waiting_, std::back_inserter(answers));
    waiting_.clear();
  }
  base::Result<view::ScanResult> scan_now(const view::ScanRequest& request) const override {
    auto result = database_.scan(request);
    if (result) rows += result->rows.size();
    return result;
  }
  void start() {
    rows = 0;
    rocksdb::get_perf_context()->Reset();
  }
  /// Deleted or overwritten rows that iterators had to step over.
  std::uint64_t stepped_over() const {
    const auto& context = *rocksdb::get_perf_context();
    return context.internal_delete_skipped_count + context.internal_key_skipped_count;
  }
  mutable std::uint64_t rows = 0;

 private:
  const view::Database& database_;
  view::ReadTicket last_ = 0;
  std::vector<view::ReadAnswer> waiting_;
};

struct NoActivator final : core::Activator {
  bool is_live_at(const core::StreamId&, std::uint64_t) const override { return true; }
  std::uint64_t restart_point(const core::StreamState&) const override { return 1; }
  void submit(core::ActivationRequest request) override {
    answers.push_back({request.stream, request.head, core::CommandPtr{}});
  }
  void poll(std::vector<core::ActivationAnswer>& out) override {
    for (auto& answer : std::exchange(answers, {})) out.push_back(std::move(answer));
  }
  void evict(const core::StreamId&) override {}
  void evict_all() override { answers.clear(); }
  std::vector<core::ActivationAnswer> answers;
};

/// Finishes every action at once but those of streams that it holds.
struct EchoDispatcher final : core::Dispatcher {
  void submit(const core::StreamId& stream, core::Action action) override {
    ++submitted;
    if (hold) return;
    finished.push_back({stream,
                        {.kind = action.kind,
                         .path = action.path,
                         .token = action.token,
                         .result = tests::test_payload("\"ok\"")}});
  }
  void poll(std::vector<core::FinishedAction>& out) override {
    for (auto& one : std::exchange(finished, {})) out.push_back(std::move(one));
  }
  void abandon_all() override { finished.clear(); }
  bool hold = false;
  int submitted = 0;
  std::vector<core::FinishedAction> finished;
};

class Engine {
 public:
  static constexpr std::uint16_t kPartitions = 2;

  explicit Engine(const std::string& folder, std::int64_t wall_ms) {
    now.wall_ms = wall_ms;
    kinds.add(std::make_shared<tests::TestKind>());
    register_partition_kind(kinds);
    database = *view::Database::open({.path = folder});
    journal =
        *journal::RocksJournal::open(*database, {.meta = {.journal_id = "r", .partitions = kPartitions}});
    view = std::make_unique<CountingView>(*database);
    reads = std::make_unique<ViewReads>(*view);
    set =
        *ShardSet::open({.partitions = kPartitions}, {kinds, *view, *reads, *journal, activator, dispatcher});
  }
  void tick(int polls = 1) {
    for (int i = 0; i < polls; ++i) {
      now.monotonic_ns += 100'000;
      set->poll(now);
    }
  }
  void until(const std::function<bool()>& reached) {
    for (int i = 0; i < 10'000'000 && !reached(); ++i) tick();
    ASSERT_TRUE(reached());
  }
  /// Gives a command to each of `count` streams.
  void each(const std::string& name, int count, const std::function<core::CommandPtr(int)>& command) {
    int answered = 0;
    for (int i = 0; i < count; ++i) {
      set->submit({.target = test_stream(name + std::to_string(i)),
                   .command = command(i),
                   .on_reply = [&](base::Result<Reply> reply) {
                     EXPECT_TRUE(reply);
                     ++answered;
                   }});
      if (i % 500 == 499) until([&] { return answered == i + 1; });
    }
    until([&] { return answered == count && dispatcher.finished.empty() && set->quiet(); });
  }

  Now now{.wall_ms = 1'000'000, .monotonic_ns = 1};
  fold::Registry kinds;
  NoActivator activator;
  EchoDispatcher dispatcher;
  std::unique_ptr<view::Database> database;
  std::unique_ptr<journal::RocksJournal> journal;
  std::unique_ptr<CountingView> view;
  std::unique_ptr<ViewReads> reads;
  std::unique_ptr<ShardSet> set;
};

/// What a second engine reads to open a folder in which `finished` streams have been in flight, `asleep` hold
/// a far timer, and three are in flight.
struct Opened {
  std::uint64_t rows = 0;
  std::uint64_t stepped_over = 0;
  std::uint64_t loads = 0;
  int resumed = 0;
};
Opened reopen(int finished, int asleep) {
  const tests::support::TempFolder folder;
  {
    Engine engine(folder.file("data"), 1'000'000);
    engine.each("finished", finished, [](int) { return test_command(tests::Act{"a", "echo"}); });
    engine.each("asleep", asleep, [](int i) { return test_command(tests::SetTimer{"t", 900'000'000 + i}); });
    engine.dispatcher.hold = true;
    engine.each("open", 3, [](int) { return test_command(tests::Act{"a", "echo"}); });
  }
  Engine engine(folder.file("data"), 1'500'000);
  engine.until([&] { return engine.dispatcher.submitted == 3; });
  engine.tick(100);
  engine.until([&] { return engine.set->quiet(); });
  return {engine.view->rows, engine.view->stepped_over(), engine.set->counters().loads,
          engine.dispatcher.submitted};
}

TEST(Recovery, ReadsWhatIsInFlightAndNothingOfWhatIsFinishedOrAsleep) {
  const Opened few = reopen(10, 10);
  const Opened many = reopen(5'000, 5'000);
  EXPECT_EQ(few.resumed, 3);
  EXPECT_EQ(many.resumed, 3);
  EXPECT_EQ(few.loads, 3U);
  EXPECT_EQ(many.loads, 3U);
  // One page of the due index is looked at in each partition, and its low-water mark if it has one yet.
  EXPECT_LE(many.rows, few.rows + Engine::kPartitions * 1'001U);
  // Rows that have come and gone are no rows that something must step over; each step to a next row counts
  // one.
  EXPECT_LE(many.stepped_over, many.rows + 20U);
}

// FR-93: the rows of timers that have fired stay in storage as deletions for a while: the low-water mark
// leads past them.
TEST(Recovery, TheDueIndexIsReadFromItsLowWaterMark) {
  const int timers = std::getenv("SANDGLASS_LONG") != nullptr ? 1'000'000 : 5'000;
  const tests::support::TempFolder folder;
  {
    Engine engine(folder.file("data"), 1'000'000);
    engine.each("t", timers,
                [](int i) { return test_command(tests::SetTimer{"t", 2'000'000 + i % 10'000}); });
    engine.now.wall_ms = 3'000'000;
    engine.until([&] {
      return engine.set->counters().timers_fired == static_cast<std::uint64_t>(timers) && engine.set->quiet();
    });
    // The mark goes along with the next records.
    engine.now.wall_ms += 60'000;
    engine.tick(100);
    engine.each("after", 20, [](int) { return test_command(tests::Add{"a", 1}); });
  }
  Engine engine(folder.file("data"), 3'060'001);
  engine.tick(100);
  engine.until([&] { return engine.set->quiet(); });
  EXPECT_EQ(engine.set->counters().timers_fired, 0U);
  std::uint64_t stepped_over = 0;
  for (core::PartitionId partition = 0; partition < Engine::kPartitions; ++partition) {
    const std::string mark = view::low_water_key(partition, view::Index::due);
    const auto row = engine.view->scan_now({.first = mark, .last = mark + '\0'});
    ASSERT_TRUE(row && row->rows.size() == 1);
    auto range = view::index_range(partition, view::Index::due, view::get_u64(row->rows[0].value), ~0ULL);
    engine.view->start();
    ASSERT_TRUE(engine.view->scan_now({.first = range.first, .last = range.last}));
    stepped_over += engine.view->stepped_over();
  }
  EXPECT_LE(stepped_over, 20U);
}

}  // namespace
}  // namespace sandglass::engine::shard
