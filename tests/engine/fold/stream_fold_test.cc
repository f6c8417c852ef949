#include "engine/fold/stream_fold.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/codec/record.h"
#include "engine/fold/project.h"
#include "engine/fold/record_maker.h"
#include "engine/fold/snapshot.h"
#include "tests/engine/fold/turn_writer.h"
#include "tests/support/test_kind.h"

namespace sandglass::engine::fold {
namespace {

using tests::Add;
using tests::test_command;
using tests::test_state;
using tests::test_stream;

std::optional<view::ViewChange> change_of(const ViewChanges& changes, const std::string& key) {
  for (const auto& change : changes) {
    if (change.key == key) return change;
  }
  return std::nullopt;
}

TEST(StreamFold, ReadingGivesTheStateThatWritingHad) {
  Writer writer;
  for (int i = 0; i < 200; ++i) writer.decide(test_command(Add{"n", i, 10}));
  writer.decide(test_command(tests::Act{"a", "echo"}));
  writer.decide(test_command(tests::SetTimer{"t", 5}));
  StreamFold read(writer.kind, writer.fold.stream());
  for (const auto& record : writer.records) {
    const auto turn = read_turn(writer.kind, record);
    ASSERT_TRUE(turn) << turn.error().message;
    const auto applied = read.apply(*turn);
    ASSERT_TRUE(applied) << applied.error().message;
    if (read.snapshot_due()) read.snapshot_made();
  }
  EXPECT_EQ(test_state(*read.state()), test_state(*writer.fold.state()));
  EXPECT_EQ(read.head(), writer.fold.head());
}

// E14: damage parks one stream; it never folds into wrong state.
TEST(StreamFold, AnyFlippedBitOfAnyRecordIsStreamDamage) {
  Writer writer;
  for (int i = 0; i < 3; ++i) writer.decide(test_command(Add{"n", i, 8}));
  for (std::size_t at = 0; at < writer.records[1].header.size(); ++at) {
    auto records = writer.records;
    records[1].header[at] = static_cast<char>(records[1].header[at] ^ 1);
    StreamFold read(writer.kind, writer.fold.stream());
    base::Status status;
    for (const auto& record : records) {
      const auto turn = read_turn(writer.kind, record);
      status = turn ? read.apply(*turn) : base::Status(std::unexpected(turn.error()));
      if (!status) break;
    }
    ASSERT_FALSE(status) << "byte " << at;
    EXPECT_TRUE(status.error().code == base::Code::stream_damaged ||
                status.error().code == base::Code::event_unknown ||
                status.error().code == base::Code::format_unknown)
        << "byte " << at << ": " << status.error().message;
  }
}

TEST(StreamFold, AMissingOrRepeatedRecordIsStreamDamage) {
  Writer writer;
  for (int i = 0; i < 3; ++i) writer.decide(test_command(Add{"n", i}));
  StreamFold read(writer.kind, writer.fold.stream());
  ASSERT_TRUE(read.apply(*read_turn(writer.kind, writer.records[0])));
  EXPECT_EQ(read.apply(*read_turn(writer.kind, writer.records[2])).error().code, base::Code::stream_damaged);
  EXPECT_EQ(read.apply(*read_turn(writer.kind, writer.records[0])).error().code, base::Code::stream_damaged);
}

TEST(StreamFold, AStateThatSomebodyHoldsIsNotChangedUnderHim) {
  Writer writer;
  writer.decide(test_command(Add{"n", 1}));
  const auto held = writer.fold.state();
  writer.decide(test_command(Add{"n", 1}));
  EXPECT_EQ(test_state(*held).sum, 1);
  EXPECT_EQ(test_state(*writer.fold.state()).sum, 2);
}

// J9: rows every 64 events and at parking; nothing in mid-run.
TEST(Project, ASnapshotIsWrittenEvery64EventsAndFoldsOnFromThere) {
  Writer writer;
  const std::string key = view::snapshot_key(writer.fold.stream());
  std::vector<std::string> snapshots;
  for (int i = 1; i <= 130; ++i) {
    writer.decide(test_command(tests::Wake{"w"}));
    const auto row = change_of(writer.changes, key);
    EXPECT_EQ(row.has_value(), i % 64 == 0) << i;
    if (row) snapshots.push_back(*row->value);
    if (!row) EXPECT_TRUE(writer.changes.empty()) << i;
  }
  ASSERT_EQ(snapshots.size(), 2U);
  auto read = decode_snapshot(writer.kind, writer.fold.stream(), snapshots[1]);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->head().seq, 128U);
  for (std::size_t i = 128; i < writer.records.size(); ++i) {
    ASSERT_TRUE(read->apply(*read_turn(writer.kind, writer.records[i])));
  }
  EXPECT_EQ(test_state(*read->state()), test_state(*writer.fold.state()));
  EXPECT_EQ(read->head(), writer.fold.head());
}

TEST(Project, ADamagedSnapshotIsIgnored) {
  Writer writer;
  for (int i = 0; i < 64; ++i) writer.decide(test_command(Add{"n", i}));
  const std::string row = *change_of(writer.changes, view::snapshot_key(writer.fold.stream()))->value;
  ASSERT_TRUE(decode_snapshot(writer.kind, writer.fold.stream(), row));
  for (std::size_t at = 0; at < row.size(); ++at) {
    std::string damaged = row;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(decode_snapshot(writer.kind, writer.fold.stream(), damaged)) << at;
  }
  EXPECT_FALSE(decode_snapshot(writer.kind, writer.fold.stream(), ""));
}

TEST(Project, TimersMessagesRequestsAndFlightLeaveTheirRows) {
  Writer writer;
  const core::StreamId& stream = writer.fold.stream();
  const core::PartitionId partition = partition_of(stream, kPartitions);
  writer.decide(test_command(tests::SetTimer{"t", 5000}), "request-1");
  EXPECT_TRUE(change_of(writer.changes, view::due_key(partition, 5000, stream, "t"))->value);
  const auto request = change_of(writer.changes, view::request_key(stream, "request-1"));
  ASSERT_TRUE(request);
  EXPECT_EQ(decode_request_row(*request->value)->seq, 1U);
  writer.decide(test_command(tests::EndTimer{"t"}));
  EXPECT_FALSE(change_of(writer.changes, view::due_key(partition, 5000, stream, "t"))->value);
  const core::StreamId target = test_stream("other");
  writer.decide(test_command(tests::Send{target, "c"}));
  EXPECT_EQ(change_of(writer.changes, view::undelivered_key(partition, stream, 3, 0))->value, target.bytes());
  writer.decide(test_command(tests::Act{"a", "echo"}));
  EXPECT_TRUE(change_of(writer.changes, view::in_flight_key(partition, stream))->value);
  writer.decide(test_command(core::ActionFinished{.path = "a", .token = {3, 1, 4}}));
  EXPECT_FALSE(change_of(writer.changes, view::in_flight_key(partition, stream))->value);
  EXPECT_TRUE(change_of(writer.changes, view::snapshot_key(stream))) << "parking writes a snapshot";
}

// J18: across partitions the high-water outlives the closing message, which may come again.
TEST(Project, AConsumedMessageMovesTheHighWaterAndEndsTheDeliveryOfItsOwnPartition) {
  const core::StreamId target = test_stream("target");
  core::StreamId near = target;
  core::StreamId far = target;
  for (int i = 0; near == target || far == target; ++i) {
    const core::StreamId candidate = test_stream("source" + std::to_string(i));
    (partition_of(candidate, kPartitions) == partition_of(target, kPartitions) ? near : far) = candidate;
  }
  for (const auto& source : {near, far}) {
    for (const bool closing : {false, true}) {
      codec::TurnHeader header{
          .stream = target, .seq = 1, .consumed = codec::ConsumedMessage{source, 7, 2, closing}};
      ViewChanges changes;
      project_header(header, kPartitions, changes);
      const auto inbox = change_of(changes, view::inbox_key(target, source));
      ASSERT_TRUE(inbox);
      EXPECT_EQ(inbox->value.has_value(), !(closing && source == near));
      if (inbox->value) EXPECT_EQ(*decode_inbox_row(*inbox->value), (InboxRow{7, 2}));
      const auto undelivered =
          change_of(changes, view::undelivered_key(partition_of(source, kPartitions), source, 7, 2));
      EXPECT_EQ(undelivered.has_value(), source == near);
    }
  }
}

TEST(StreamFold, AnInboxRowHasOneReading) {
  EXPECT_EQ(decode_inbox_row(encode_inbox_row({7, 0xFFFFFFFF})).value(), (InboxRow{7, 0xFFFFFFFF}));
  std::string row;
  codec::put_varint(row, 7);
  codec::put_varint(row, 0x100000002);  // in 32 bits it would read as 2
  EXPECT_EQ(decode_inbox_row(row).error().code, base::Code::record_damaged);
}

// J12: a record of two parts numbers its slots through, and a timer of the first part that the second ends is
// gone.
TEST(RecordMaker, PartsAreNumberedThrough) {
  const tests::TestKind kind;
  const core::DecideInput input{.stream = test_stream("s"), .seq = 1, .epoch = 1};
  RecordMaker maker({.stream = input.stream, .seq = 1, .epoch = 1});
  core::Turn first;
  const auto state = kind.initial();
  ASSERT_TRUE(kind.decide(*state, *test_command(Add{"n", 1, 5}), input, first));
  first.timers_started.push_back({"t", 9});
  maker.add(encode_part(kind, first));
  ASSERT_EQ(maker.slots().size(), 2U);  // the stored one and the reply
  core::Turn second{.first_slot = 2, .first_message = 0};
  ASSERT_TRUE(kind.decide(*state, *test_command(tests::Act{"a", "echo"}), input, second));
  EXPECT_EQ(second.actions[0].input.slot, 2U);
  second.timers_ended.push_back({"t", 9});
  maker.add(encode_part(kind, second));
  const MadeRecord made = maker.finish(codec::InFlightChange::entered, false);
  EXPECT_EQ(made.record.slots[2], second.actions[0].input_slot);
  EXPECT_TRUE(made.header.timers_started.empty());
  EXPECT_EQ(made.header.timers_ended.size(), 1U);
  EXPECT_EQ(made.header.reply_slot, 1U);
  const auto read = codec::decode_header(made.record);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, made.header);
}

}  // namespace
}  // namespace sandglass::engine::fold
