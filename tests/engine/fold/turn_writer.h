// Makes records of one stream of the test kind, with the rows that they cause.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/fold/project.h"
#include "engine/fold/record_maker.h"
#include "engine/fold/stream_fold.h"
#include "tests/support/test_kind.h"

namespace sandglass::engine::fold {

inline constexpr std::uint16_t kPartitions = 8;

/// Decides commands one record each, as a shard does, and keeps the stored records.
class Writer {
 public:
  explicit Writer(const core::StreamId& stream = tests::test_stream("s")) : fold(kind, stream) {}

  const codec::TurnHeader& decide(const core::CommandPtr& command, std::string request_id = {}) {
    const core::DecideInput input{
        .stream = fold.stream(), .seq = fold.head().seq + 1, .now_ms = 1000, .epoch = 3};
    core::Turn turn;
    EXPECT_TRUE(kind.decide(*fold.state(), *command, input, turn));
    const auto before = kind.copy(*fold.state());
    RecordMaker maker({.stream = input.stream,
                       .seq = input.seq,
                       .previous = fold.head().leaf,
                       .time_ms = input.now_ms,
                       .epoch = input.epoch,
                       .request_id = std::move(request_id)});
    maker.add(encode_part(kind, turn));
    fold.evolve(*turn.events, maker.header().info());
    const bool in_flight = kind.in_flight(*fold.state());
    auto change = codec::InFlightChange::unchanged;
    if (in_flight != fold.head().in_flight) {
      change = in_flight ? codec::InFlightChange::entered : codec::InFlightChange::left;
    }
    MadeRecord made = maker.finish(change, false);
    fold.close(made.header, made.leaf);
    changes.clear();
    project_record(fold, before.get(), made.header, kPartitions, changes);
    records.push_back(made.record);
    headers.push_back(made.header);
    return headers.back();
  }

  tests::TestKind kind;
  StreamFold fold;
  std::vector<core::StoredRecord> records;
  std::vector<codec::TurnHeader> headers;
  ViewChanges changes;
};

}  // namespace sandglass::engine::fold
