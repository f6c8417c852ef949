// Messages, timers, loading, damage and recovery: J4, J10, J18, E3, E14.
#include <gtest/gtest.h>

#include "tests/support/test_world.h"

namespace sandglass::engine::shard {
namespace {

using tests::Add;
using tests::Send;
using tests::SetTimer;
using tests::test_command;
using tests::test_stream;
using tests::World;

/// Two streams of different partitions, or of the same.
std::pair<core::StreamId, core::StreamId> two_streams(const World& world, bool same_partition) {
  const auto first = test_stream("first");
  for (int i = 0;; ++i) {
    const auto second = test_stream("second" + std::to_string(i));
    const bool same = fold::partition_of(first, world.config.partitions) ==
                      fold::partition_of(second, world.config.partitions);
    if (same == same_partition) return {first, second};
  }
}

int received(const tests::TestState& state) {
  int count = 0;
  for (const auto& entry : state.log) count += entry.starts_with("8:") ? 1 : 0;
  return count;
}

// J18
TEST(Messages, AreAppliedOnceAndInOrderAcrossCrashes) {
  for (const bool same : {true, false}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      World world(seed);
      const auto [source, target] = two_streams(world, same);
      std::vector<std::string> expected;
      for (int i = 0; i < 12; ++i) {
        const std::string name = "m" + std::to_string(i);
        ASSERT_TRUE(world.call_now(source, test_command(Send{target, name})));
        expected.push_back("8:" + source.text() + "/" + name);
        world.tick(static_cast<int>(world.random.next() % 6));
        if (world.random.next() % 3 == 0) world.crash();
      }
      world.settle();
      EXPECT_EQ(world.state_of(target).log, expected) << "seed " << seed << (same ? " same" : " other");
      world.sleep(1000);
      world.settle();
      EXPECT_EQ(world.rows_of(view::Index::undelivered), 0U) << "seed " << seed;
    }
  }
}

TEST(Messages, ARefusedMessageIsConsumed) {
  World world;
  const auto [source, target] = two_streams(world, false);
  ASSERT_TRUE(world.call_now(source, test_command(Send{target, "unwanted"})));
  ASSERT_TRUE(world.call_now(source, test_command(Send{target, "wanted"})));
  world.settle();
  world.sleep(1000);
  world.settle();
  EXPECT_EQ(received(world.state_of(target)), 1);
  EXPECT_EQ(world.rows_of(view::Index::undelivered), 0U);
}

TEST(Messages, AfterAClosingMessageNothingOfTheSourceIsKept) {
  for (const bool same : {true, false}) {
    World world;
    const auto [source, target] = two_streams(world, same);
    ASSERT_TRUE(world.call_now(source, test_command(Send{target, "one"})));
    world.settle();
    EXPECT_TRUE(world.disk.get(view::inbox_key(target, source)));
    ASSERT_TRUE(world.call_now(source, test_command(Send{target, "last", true})));
    for (int i = 0; i < 5; ++i) {
      world.settle();
      world.sleep(100);
    }
    EXPECT_FALSE(world.disk.get(view::inbox_key(target, source)));
    EXPECT_EQ(received(world.state_of(target)), 2);
  }
}

// J18: whenever the process dies between the record that consumes a closing message, the one that books its
// arrival and the one that drops the inbox row.
TEST(Messages, AfterAClosingMessageNothingOfTheSourceIsKeptWhereverItCrashes) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world(seed);
    const auto [source, target] = two_streams(world, false);
    ASSERT_TRUE(world.call_now(source, test_command(Send{target, "only", true})));
    const auto crash_at = static_cast<int>(world.random.next() % 120);
    for (int i = 0; i < 120; ++i) {
      world.tick();
      if (i % 10 == 9) world.sleep(5);
      if (i == crash_at) world.crash();
    }
    for (int i = 0; i < 5; ++i) {
      world.settle();
      world.sleep(100);
    }
    EXPECT_FALSE(world.disk.get(view::inbox_key(target, source))) << "seed " << seed;
    EXPECT_EQ(world.rows_of(view::Index::closing), 0U) << "seed " << seed;
    EXPECT_EQ(world.rows_of(view::Index::undelivered), 0U) << "seed " << seed;
    EXPECT_EQ(received(world.state_of(target)), 1) << "seed " << seed;
  }
}

// Nothing is delivered that is not durable.
TEST(Messages, WaitForTheirRecordToBeDurable) {
  World world;
  const auto [source, target] = two_streams(world, false);
  world.gate->closed = true;
  world.call("send", source, test_command(Send{target, "m"}));
  world.tick(100);
  EXPECT_EQ(world.gate->batches, 1U);
  world.gate->closed = false;
  world.settle();
  EXPECT_EQ(received(world.state_of(target)), 1);
}

TEST(Timers, FireOnceWhenDueAndLeaveNoRow) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(SetTimer{"soon", world.now.wall_ms + 50})));
  ASSERT_TRUE(world.call_now(stream, test_command(SetTimer{"late", world.now.wall_ms + 10'000'000})));
  world.tick(50);
  EXPECT_EQ(world.state_of(stream).timers.size(), 2U);
  world.sleep(49);
  world.settle();
  EXPECT_EQ(world.state_of(stream).timers.size(), 2U) << "not before it is due";
  world.sleep(1);
  world.settle();
  EXPECT_EQ(world.state_of(stream).timers.size(), 1U);
  EXPECT_EQ(world.rows_of(view::Index::due), 1U);
  world.sleep(10'000'000);
  world.settle();
  EXPECT_TRUE(world.state_of(stream).timers.empty());
  EXPECT_EQ(world.rows_of(view::Index::due), 0U);
  EXPECT_EQ(world.set->counters().timers_fired, 2U);
}

TEST(Timers, OneThatWasEndedDoesNotFire) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(SetTimer{"t", world.now.wall_ms + 50})));
  world.call("end", stream, test_command(tests::EndTimer{"t"}));
  world.sleep(100);
  world.settle();
  EXPECT_EQ(world.set->counters().timers_fired, 0U);
  EXPECT_EQ(world.headers(stream).size(), 2U);
  EXPECT_EQ(world.rows_of(view::Index::due), 0U);
}

// FR-34, E3: whatever was due while nobody was there fires after recovery; far timers cost no memory.
TEST(Timers, SurviveCrashesAndStayInTheIndexUntilTheyAreNear) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed, {.partitions = 2, .max_resident = 5, .timer_horizon_ms = 1000, .max_timers = 20});
    const int streams = 60;
    for (int i = 0; i < streams; ++i) {
      const auto due = world.now.wall_ms + static_cast<std::int64_t>(world.random.next() % 20'000);
      world.call("t", test_stream(std::to_string(i)), test_command(SetTimer{"t", due}));
      world.tick(static_cast<int>(world.random.next() % 3));
    }
    ASSERT_TRUE(world.until([&] { return world.answers.size() == static_cast<std::size_t>(streams); }));
    for (int i = 0; i < 30; ++i) {
      world.sleep(static_cast<std::int64_t>(world.random.next() % 1500));
      if (world.random.next() % 4 == 0) world.crash();
      world.tick(static_cast<int>(world.random.next() % 30));
    }
    world.sleep(20'000);
    ASSERT_TRUE(world.until([&] { return world.rows_of(view::Index::due) == 0; })) << "seed " << seed;
    world.settle();
    for (int i = 0; i < streams; ++i) {
      const auto state = world.state_of(test_stream(std::to_string(i)));
      EXPECT_EQ(state.log, (std::vector<std::string>{"5:t", "7:t"})) << "seed " << seed << " stream " << i;
    }
  }
}

// J10: what finished is not read again.
TEST(Timers, TheLowWaterMarkMovesPastWhatHasFired) {
  World world(1, {.partitions = 1});
  const auto stream = test_stream("a");
  const std::string key = view::low_water_key(0, view::Index::due);
  ASSERT_TRUE(world.call_now(stream, test_command(SetTimer{"t", world.now.wall_ms + 50})));
  world.sleep(100'000);
  world.settle();
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  world.settle();
  const auto mark = view::from_sortable(view::get_u64(*world.disk.get(key)));
  EXPECT_GT(mark, world.now.wall_ms - 20'000);
  ASSERT_TRUE(world.call_now(stream, test_command(SetTimer{"past", 5})));
  world.crash();
  world.settle();
  ASSERT_TRUE(world.until([&] { return world.state_of(stream).timers.empty(); }))
      << "a timer in the past moves the mark back";
}

// J10, FR-66: what was handed out and not finished is handed out again, once per recovery.
TEST(Recovery, OpenActionsAreHandedOutAgain) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(tests::Act{"p", "echo"})));
  ASSERT_TRUE(world.call_now(stream, test_command(tests::Act{"q", "echo"})));
  world.settle();
  world.dispatcher->finish(stream, world.dispatcher->submitted[0].second);
  world.settle();
  world.crash();
  world.settle();
  ASSERT_EQ(world.dispatcher->submitted.size(), 1U);
  EXPECT_EQ(world.dispatcher->submitted[0].second.path, "q");
  world.dispatcher->finish(stream, world.dispatcher->submitted[0].second);
  world.settle();
  world.crash();
  world.settle();
  EXPECT_TRUE(world.dispatcher->submitted.empty());
}

TEST(Recovery, StreamsAreEvictedAndLoadedAgain) {
  World world(5, {.partitions = 2, .max_resident = 3});
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 20; ++i) world.call("c", test_stream(std::to_string(i)), test_command(Add{"n", i}));
    world.settle();
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(world.state_of(test_stream(std::to_string(i))).sum, 40 * i) << i;
    EXPECT_EQ(world.headers(test_stream(std::to_string(i))).size(), 40U);
  }
  EXPECT_GT(world.set->counters().evictions, 100U);
}

// FR-95: a long history without a usable snapshot is read forward, page by page.
TEST(Recovery, AStreamWhoseSnapshotIsDamagedIsFoldedFromItsRecords) {
  World world;
  const auto stream = test_stream("a");
  for (int i = 0; i < 500; ++i) world.call("c", stream, test_command(Add{"n", 1}));
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 500; }));
  const std::string key = view::snapshot_key(stream);
  ASSERT_TRUE(world.disk.get(key));
  for (const auto& value : {std::optional<std::string>("garbage"), std::optional<std::string>()}) {
    const auto expected = world.state_of(stream);
    world.disk.tamper(key, value);
    world.crash();
    EXPECT_EQ(world.state_of(stream), expected);
    ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 0})));
  }
}

// E14: damage is the matter of one stream.
TEST(Recovery, ADamagedStreamIsParkedAlone) {
  World world;
  const auto damaged = test_stream("damaged");
  const auto healthy = test_stream("healthy");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(world.call_now(damaged, test_command(Add{"n", 1})));
    ASSERT_TRUE(world.call_now(healthy, test_command(Add{"n", 1})));
  }
  const std::string key = view::record_key(damaged, 2);
  std::string row = *world.disk.get(key);
  row[row.size() / 2] = static_cast<char>(row[row.size() / 2] ^ 0x40);
  world.disk.tamper(key, row);
  world.crash();
  const auto refused = world.call_now(damaged, test_command(Add{"n", 1}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::stream_damaged) << refused.error().message;
  EXPECT_TRUE(world.call_now(healthy, test_command(Add{"n", 1})));
  ASSERT_TRUE(world.call_now(healthy, test_command(Send{damaged, "m"})));
  world.settle();
  EXPECT_EQ(world.rows_of(view::Index::undelivered), 1U) << "what it cannot take is kept";
  EXPECT_FALSE(world.set->lost());
}

// The newest record has no later one whose link would tell: its own checksum does. The first byte is the
// format: damaged, it must not look like a newer one, which would stop everybody (J4).
TEST(Recovery, ADamagedNewestRecordIsParkedAloneWhicheverByteItIs) {
  World world;
  const auto damaged = test_stream("damaged");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world.call_now(damaged, test_command(Add{"n", 1})));
  const std::string key = view::record_key(damaged, 3);
  const std::string row = *world.disk.get(key);
  for (const std::size_t at : {std::size_t{0}, row.size() / 2, row.size() - 1}) {
    std::string changed = row;
    changed[at] = static_cast<char>(changed[at] ^ 0x02);
    world.disk.tamper(key, changed);
    world.crash();
    const auto refused = world.call_now(damaged, test_command(Add{"n", 1}));
    ASSERT_FALSE(refused) << at;
    EXPECT_EQ(refused.error().code, base::Code::stream_damaged) << refused.error().message;
    EXPECT_TRUE(world.call_now(test_stream("healthy"), test_command(Add{"n", 1})));
    EXPECT_FALSE(world.set->lost());
  }
  world.disk.tamper(key, row);
  world.crash();
  EXPECT_EQ(world.state_of(damaged).sum, 3) << "repaired, it goes on";
}

// Damage of what all streams of a partition hang on: nothing is opened, and the error says what and where.
TEST(Recovery, ADamagedPartitionRowRefusesToOpenAndNamesThePartition) {
  World world;
  const auto stream = test_stream("a");
  const auto partition = fold::partition_of(stream, world.config.partitions);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  ASSERT_TRUE(world.call_now(stream, test_command(tests::SetTimer{"t", 1LL << 40})));
  const auto order = view::order_range(partition);
  const auto rows = world.disk.scan({.first = order.first, .last = order.last, .limit = 100}).rows;
  const auto due = view::index_range(partition, view::Index::due);
  const std::string due_row = world.disk.scan({.first = due.first, .last = due.last}).rows.at(0).key;
  std::string changed = rows.back().value;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  const std::string epoch_key = view::owner_epoch_key(partition);
  struct Case {
    std::string key;
    std::optional<std::string> value;
    const char* words;
    const char* remedy = "restore";
  };
  const std::vector<Case> cases = {
      {rows.back().key, changed, "does not extend the chain"},
      {rows.back().key, "x", "order row"},
      {rows[rows.size() - 2].key, std::nullopt, "is missing"},
      {epoch_key, std::string(8, '\0'), "owner epoch"},
      {epoch_key, "x", "owner epoch"},
      {due_row.substr(0, due_row.size() - 12), std::string(), "due index", "sandglass rebuild"},
  };
  for (const Case& one : cases) {
    const auto before = world.disk.get(one.key);
    world.disk.tamper(one.key, one.value);
    const auto refused = world.open_again();
    ASSERT_FALSE(refused) << one.words;
    EXPECT_EQ(refused.error().code, base::Code::record_damaged);
    EXPECT_NE(refused.error().message.find("partition " + std::to_string(partition)), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find(one.words), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find(one.remedy), std::string::npos) << refused.error().message;
    world.disk.tamper(one.key, before);
  }
  EXPECT_TRUE(world.open_again());
}

TEST(Recovery, DamageInFrontOfTheSnapshotMakesOnlyTheRebuiltStreamStuck) {
  World world(1, {.partitions = 4, .evict_always = true});
  const auto stream = test_stream("a");
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  std::string row = *world.disk.get(view::record_key(stream, 2));
  row.resize(row.size() - 3);
  world.disk.tamper(view::record_key(stream, 2), row);
  world.crash();
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})))
      << "loading needs only what follows the snapshot";
  ASSERT_TRUE(world.call_now(stream, test_command(tests::Wake{"go"})));
  world.settle();
  EXPECT_EQ(world.state_of(stream).stuck, static_cast<int>(base::Code::stream_damaged));
  EXPECT_TRUE(world.call_now(test_stream("b"), test_command(Add{"n", 1})));
  EXPECT_FALSE(world.set->lost());
}

TEST(Recovery, AnUndeliverableMessageDoesNotKeepTheEngineFromOpening) {
  World world;
  const auto [source, target] = two_streams(world, true);
  world.gate->closed = true;  // sent and durable, but never released
  world.call("send", source, test_command(Send{target, "m"}));
  ASSERT_TRUE(world.until([&] {
    std::vector<journal::Completed> ignored;
    world.inner->poll(ignored);
    world.tick();
    return world.disk.get(view::record_key(source, 1)).has_value();
  }));
  std::string row = *world.disk.get(view::record_key(source, 1));
  row.resize(row.size() - 3);
  world.disk.tamper(view::record_key(source, 1), row);
  world.crash();
  EXPECT_TRUE(world.call_now(target, test_command(Add{"n", 1})));
  EXPECT_EQ(world.rows_of(view::Index::undelivered), 1U);
}

// J4: an event that is newer than the program stops the shard; it is never skipped.
TEST(Recovery, AnUnknownEventStopsTheShard) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1})));
  codec::TurnHeader header = world.headers(stream)[0];
  header.events[0].version = 2;
  core::StoredRecord record{.stream = stream, .seq = 1, .header = codec::encode_header(header)};
  record.slots = codec::decode_record(stream, 1, *world.disk.get(view::record_key(stream, 1)))->slots;
  world.disk.tamper(view::record_key(stream, 1), codec::encode_record(record));
  world.crash();
  world.call("c", stream, test_command(Add{"n", 1}));
  ASSERT_TRUE(world.until([&] { return world.set->lost().has_value(); }));
  EXPECT_EQ(world.set->lost()->code, base::Code::event_unknown);
}

// J22: the order links of each partition chain, over all owners.
TEST(Recovery, OrderLinksChainAcrossOwners) {
  World world(1, {.partitions = 2});
  for (int owner = 0; owner < 4; ++owner) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(world.call_now(test_stream(std::to_string(i)), test_command(Add{"n", 1})));
    }
    world.crash();
  }
  for (std::uint16_t partition = 0; partition < 2; ++partition) {
    base::Hash256 chain = codec::genesis_chain("memory", partition);
    core::Sequence expected = 0;
    const view::KeyRange range = view::order_range(partition);
    for (const auto& row :
         world.disk.scan({.first = range.first, .last = range.last, .limit = 10'000}).rows) {
      const auto link = codec::decode_order(view::parse_order_key(row.key)->sequence, row.value);
      ASSERT_TRUE(link);
      EXPECT_EQ(link->sequence, ++expected);
      chain = codec::chain_hash(chain, partition, link->sequence, link->epoch, link->leaf);
      EXPECT_EQ(link->chain, chain);
    }
    EXPECT_GT(expected, 0U);
  }
}

}  // namespace
}  // namespace sandglass::engine::shard
