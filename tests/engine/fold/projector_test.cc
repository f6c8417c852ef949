// Rows made from records alone are those that the records' writer made (J1).
#include "engine/fold/projector.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "engine/codec/record.h"
#include "engine/view/keys.h"
#include "engine/view/memory/view.h"
#include "tests/engine/fold/turn_writer.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::fold {
namespace {

using tests::Add;
using tests::EndTimer;
using tests::SetTimer;
using tests::test_command;

/// A view as an owner's writer leaves it, and one that a projector makes beside it from the same records.
class Rebuild : public testing::Test {
 protected:
  Rebuild() { kinds_.add(std::make_shared<tests::TestKind>()); }

  void write(const std::string& name, const core::CommandPtr& command) {
    auto& writer = writers_[name];
    if (!writer) writer = std::make_unique<Writer>(tests::test_stream(name));
    writer->decide(command);
    const core::StoredRecord& record = writer->records.back();
    auto rows = writer->changes;
    rows.push_back({view::record_key(record.stream, record.seq), codec::encode_record(record)});
    const core::PartitionId partition = partition_of(record.stream, kPartitions);
    owned_.sync(owned_.write(partition, rows));
    const core::OrderedRecord ordered{.link = {.sequence = ++sequence_, .stream = record.stream},
                                      .record = record};
    ViewChanges made;
    const auto status = projector_->project(partition, ordered, made);
    ASSERT_TRUE(status) << status.error().message;
    made.push_back({view::record_key(record.stream, record.seq), codec::encode_record(record)});
    anew_.sync(anew_.write(partition, made));
  }
  bool has_timer(const std::string& name, const std::string& timer) const {
    const auto found = writers_.find(name);
    return found != writers_.end() && tests::test_state(*found->second->fold.state()).timers.contains(timer);
  }
  /// Another process goes on: nothing is in memory.
  void restart() { projector_ = std::make_unique<Projector>(kinds_, anew_view_, kPartitions); }

  std::map<std::string, std::string> rows_of(const view::MemoryDisk& disk) const {
    std::map<std::string, std::string> rows(disk.rows().begin(), disk.rows().end());
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition)
      rows.erase(view::low_water_key(partition, view::Index::due));
    return rows;
  }

  tests::support::SeededRandom random_{7};
  Registry kinds_;
  view::MemoryDisk owned_{random_};
  view::MemoryDisk anew_{random_};
  view::MemoryView anew_view_{anew_, random_};
  std::unique_ptr<Projector> projector_ = std::make_unique<Projector>(kinds_, anew_view_, kPartitions);
  std::map<std::string, std::unique_ptr<Writer>> writers_;
  core::Sequence sequence_ = 0;
};

TEST_F(Rebuild, EveryRowIsTheOneThatItsOwnerWrote) {
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "stream " + std::to_string(random_.next() % 20);
    const std::string timer = "t" + std::to_string(random_.next() % 3);
    const auto due = static_cast<std::int64_t>(1'000 + random_.next() % 1'000);
    switch (random_.next() % 4) {
      case 0:
        write(name, test_command(SetTimer{timer, due}));
        break;
      case 1:
        if (has_timer(name, timer)) write(name, test_command(EndTimer{timer}));
        break;
      default:
        write(name, test_command(Add{"n", i, random_.next() % 50}));
    }
    if (random_.next() % 500 == 0) restart();
  }
  EXPECT_EQ(rows_of(anew_), rows_of(owned_));
  EXPECT_GT(rows_of(anew_).size(), 2000u);
}

TEST_F(Rebuild, ATimerBelowTheMarkTakesItAlong) {
  const auto stream = tests::test_stream("late");
  const core::PartitionId partition = partition_of(stream, kPartitions);
  const std::string key = view::low_water_key(partition, view::Index::due);
  std::string mark;
  view::put_u64(mark, view::sortable(std::int64_t{5'000}));
  anew_.sync(anew_.write(partition, {{key, mark}}));
  write("late", test_command(SetTimer{"above", 6'000}));
  EXPECT_EQ(view::from_sortable(view::get_u64(*anew_.get(key))), 5'000);
  write("late", test_command(SetTimer{"below", 4'000}));
  EXPECT_EQ(view::from_sortable(view::get_u64(*anew_.get(key))), 4'000);
}

TEST_F(Rebuild, ADamagedStreamDoesNotStopTheOthers) {  // E14
  write("good", test_command(Add{"n", 1, 0}));
  core::StoredRecord foreign = writers_["good"]->records.back();
  foreign.stream = tests::test_stream("bad");
  ViewChanges changes;
  const core::OrderedRecord ordered{.link = {.sequence = 9, .stream = foreign.stream}, .record = foreign};
  EXPECT_TRUE(projector_->project(partition_of(foreign.stream, kPartitions), ordered, changes));
  EXPECT_TRUE(changes.empty());
  write("good", test_command(Add{"n", 2, 0}));
  EXPECT_EQ(rows_of(anew_), rows_of(owned_));
}

TEST_F(Rebuild, AKindThatThisProgramDoesNotKnowStopsIt) {  // J4
  const auto stream = core::StreamId::named(core::StreamKind::schedule, "s");
  const core::OrderedRecord ordered{.link = {.sequence = 1, .stream = stream},
                                    .record = {.stream = stream, .seq = 1}};
  ViewChanges changes;
  const auto status = projector_->project(partition_of(stream, kPartitions), ordered, changes);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, base::Code::format_unknown);
}

}  // namespace
}  // namespace sandglass::engine::fold
