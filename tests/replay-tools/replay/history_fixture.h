// Run histories in a memory journal, record by record, as a shard writes them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/codec/record.h"
#include "engine/fold/record_maker.h"
#include "engine/journal/memory/journal.h"
#include "engine/run/codec/codec.h"
#include "engine/run/decider.h"
#include "engine/run/view/run_view.h"
#include "engine/view/keys.h"
#include "replay-tools/replay/run_describer.h"
#include "replay-tools/replay/timeline.h"
#include "tests/support/seeded_random.h"

namespace sandglass::replay_tools {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace fold = engine::fold;
namespace journal = engine::journal;
namespace run = engine::run;

using RunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;

class Histories {
 public:
  static constexpr std::uint16_t kPartitions = 2;

  Histories() {
    kinds.add(kind, std::make_unique<replay::RunDescriber>());
    for (core::PartitionId partition = 0; partition < kPartitions; ++partition)
      owned_[partition] = *journal_.own(partition);
  }

  /// Writes one record of the stream.
  void record(const core::StreamId& stream, std::vector<run::Event> events,
              std::vector<core::SlotPtr> slots = {}) {
    Last& last = last_[stream];
    core::Turn turn;
    auto batch = std::make_shared<core::Events<run::Event>>();
    batch->items = std::move(events);
    turn.events = std::move(batch);
    turn.slots = std::move(slots);
    codec::TurnHeader header{.stream = stream,
                             .seq = last.seq + 1,
                             .previous = last.leaf,
                             .time_ms = 1'000 * static_cast<std::int64_t>(last.seq + 1),
                             .epoch = 1};
    if (last.seq == 0) header.request_id = "start";
    fold::RecordMaker maker(std::move(header));
    maker.add(fold::encode_part(*kind, turn));
    fold::MadeRecord made = maker.finish(codec::InFlightChange::unchanged, false);
    last = {.seq = last.seq + 1, .leaf = made.leaf};
    const core::PartitionId partition = engine::view::partition_of(stream.bucket(), kPartitions);
    journal::Ownership& at = owned_.at(partition);
    at.chain = codec::chain_hash(at.chain, partition, ++at.last_sequence, at.epoch, made.leaf);
    const core::OrderLink link{.sequence = at.last_sequence,
                               .epoch = at.epoch,
                               .stream = stream,
                               .stream_seq = made.record.seq,
                               .leaf = made.leaf,
                               .chain = at.chain};
    journal::Batch written{.partition = partition};
    written.records.push_back({link, std::move(made.record)});
    journal_.submit(std::move(written));
    std::vector<journal::Completed> completed;
    while (completed.empty()) journal_.poll(completed);
  }

  /// A run with a step that fails once and an operation whose outcome is unknown for a while: 9 records.
  core::StreamId sample(const std::string& name) {
    const core::StreamId stream = core::StreamId::named(core::StreamKind::run, name);
    const core::PayloadRef input{.seq = 1, .slot = 0, .size = 9};
    record(stream, {run::RunStarted{.workflow = "build", .tenant = "t", .user = "u", .input = input}},
           {std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, "{\"a\":123}"})});
    record(stream, {run::StepScheduled{
                       .path = "0/compile", .activity = "exec", .options = {.retry = {.max_attempts = 3}}}});
    record(stream, {run::StepAttemptFailed{.path = "0/compile", .attempt = 1, .next_ms = 9'000}});
    record(stream, {run::StepRetried{"0/compile"}});
    record(stream,
           {run::StepCompleted{.path = "0/compile", .attempt = 2},
            run::OperationScheduled{.path = "0/pay", .tool = "http", .options = {.target = "example"}}});
    record(stream, {run::OperationIntended{.path = "0/pay", .attempt = 1, .key = std::string(64, 'a')}});
    record(stream, {run::OperationUnknown{.path = "0/pay", .attempt = 1}});
    record(stream, {run::OperationSettled{.path = "0/pay", .outcome = core::Outcome::done}});
    record(stream, {run::RunCompleted{}});
    return stream;
  }

  std::shared_ptr<const RunKind> kind = std::make_shared<RunKind>();
  replay::Kinds kinds;
  tests::support::SeededRandom random{1};
  engine::view::MemoryDisk disk{random};
  engine::view::MemoryView view{disk, random};
  journal::RowReader reader{view};

 private:
  struct Last {
    std::uint64_t seq = 0;
    base::Hash256 leaf;
  };

  journal::MemoryJournal journal_{
      disk, random, {.meta = {.journal_id = "histories", .partitions = kPartitions}}};
  std::map<core::PartitionId, journal::Ownership> owned_;
  std::map<core::StreamId, Last> last_;
};

}  // namespace sandglass::replay_tools
