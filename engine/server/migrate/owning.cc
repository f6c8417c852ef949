#include "engine/server/migrate/owning.h"

#include <chrono>
#include <utility>
#include <vector>

#include "engine/base/crash_point.h"
#include "engine/base/steady_clock.h"
#include "engine/base/system_ports.h"
#include "engine/base/wakeup.h"
#include "engine/codec/record.h"
#include "engine/journal/rows/owners.h"
#include "engine/server/compose/kinds.h"
#include "engine/server/compose/storage.h"

namespace sandglass::engine::server::migrate {
namespace {

using base::Code;
using journal::Completion;

constexpr std::chrono::milliseconds kLookEvery{1'000};

/// The engine's storage, without the engine.
class Owning {
 public:
  Owning(const base::DataFolder& folder, const Config& config) : folder_(folder), config_(config) {
    for (auto& kind : compose::all_kinds()) kinds_.add(std::move(kind));
  }

  base::Status open(bool reopen) {
    auto key = folder_.tenant_key();
    if (!key) return std::unexpected(key.error());
    tenant_key_ = std::move(*key);
    std::string serves;
    const compose::StorageOptions options{
        .folder = folder_,
        .config = config_,
        .kinds = kinds_,
        .tenant_key = tenant_key_,
        .clock = clock_,
        .random = random_,
        .wake = [] {},
        .completed = [this] { news_.signal(); },
        .standby = {.standing_by = [&](const std::string& holder) { serves = holder; },
                    .ends = [&] { return !serves.empty(); },
                    .lost = [](const base::Error&) {}}};
    auto opened = compose::open_kafka_journal(options, reopen, storage_);
    if (!opened) return std::unexpected(opened.error());
    opened_ = std::move(*opened);
    auto leased = compose::begin_leasing(options, opened_, storage_);
    if (!leased && leased.error().code == Code::cancelled) {
      return base::fail(Code::unavailable,
                        serves + " serves the topic: stop it, and begin again when its lease has ended");
    }
    return leased;
  }

  /// Every partition that is not closed.
  base::Status own() {
    for (core::PartitionId partition = 0; partition < partitions(); ++partition)
      opened_.journal->begin_owning(partition);
    base::Status status;
    for (core::PartitionId partition = 0; partition < partitions(); ++partition) {
      auto owned = opened_.journal->own(partition);
      if (owned) owned_.push_back(*owned);
      if (!owned && owned.error().code != Code::folder_version) status = std::unexpected(owned.error());
    }
    SG_CRASH_POINT("migrate.topic_owned");
    return status;
  }

  base::Result<Closed> closed() const {
    Closed closed{.all = true};
    for (core::PartitionId partition = 0; partition < partitions(); ++partition) {
      auto moves = journal::read_moves(*storage_.view, storage_.meta, partition);
      if (!moves) return std::unexpected(moves.error());
      if (closed.move && moves->away != closed.move) closed.all = false;
      if (!moves->away && partition == 0) closed.all = false;
      if (!closed.move && moves->away && partition > 0) closed.all = false;
      if (moves->away && !closed.move) closed.move = std::move(moves->away);
    }
    return closed;
  }

  base::Result<journal::Move> close(journal::Move move) {
    for (const journal::Ownership& each : owned_)
      move.heads.push_back({.sequence = each.last_sequence, .chain = each.chain});
    const std::string text = journal::encode_move(move);
    for (core::PartitionId partition = 0; partition < partitions(); ++partition) {
      if (auto submitted = submit(partition, text); !submitted) return std::unexpected(submitted.error());
      // One after the other: what a kill in between leaves has been seen.
      if (auto durable = wait(); !durable) return std::unexpected(durable.error());
      SG_CRASH_POINT("migrate.topic_closing");
    }
    return move;
  }

 private:
  std::uint16_t partitions() const { return storage_.meta.partitions; }

  base::Status submit(core::PartitionId partition, const std::string& text) {
    const auto moves = journal::read_moves(*storage_.view, storage_.meta, partition);
    if (!moves) return std::unexpected(moves.error());
    const journal::Ownership& owned = owned_.at(partition);
    const core::StreamId owners = journal::owners_stream(partition, partitions());
    core::OrderedRecord record{.record = journal::make_epoch_record(
                                   owners, moves->newest ? &*moves->newest : nullptr, owned.epoch,
                                   journal::time_of_next(*storage_.view, partition, clock_.wall_ms()), text)};
    core::OrderLink& link = record.link;
    link = {.sequence = owned.last_sequence + 1,
            .epoch = owned.epoch,
            .stream = owners,
            .stream_seq = record.record.seq,
            .leaf = codec::leaf_hash(record.record)};
    link.chain = codec::chain_hash(owned.chain, partition, link.sequence, link.epoch, link.leaf);
    journal::Batch batch{.partition = partition};
    batch.records.push_back(std::move(record));
    opened_.journal->submit(std::move(batch));
    return {};
  }

  base::Status wait() {
    std::vector<journal::Completed> told;
    for (opened_.journal->poll(told); told.empty(); opened_.journal->poll(told)) news_.sleep(kLookEvery);
    if (told.front().completion == Completion::durable) return {};
    return base::fail(Code::outcome_unknown,
                      "whether the topic is closed is not known: " + told.front().message +
                          ". `sandglass migrate --continue` finds out and goes on");
  }

  const base::DataFolder& folder_;
  const Config& config_;
  fold::Registry kinds_;
  std::string tenant_key_;
  base::SystemClock machine_clock_;
  base::SteadyClock clock_{machine_clock_};
  base::SystemRandom random_;
  base::Wakeup news_;
  std::vector<journal::Ownership> owned_;
  compose::Storage storage_;
  compose::KafkaOpened opened_;  // ends before what it stands on
};

}  // namespace

base::Result<Closed> look_at_topic(const base::DataFolder& folder, const Config& config) {
  Owning owning(folder, config);
  if (auto opened = owning.open(false); !opened) return std::unexpected(opened.error());
  if (auto owned = owning.own(); !owned) return std::unexpected(owned.error());
  return owning.closed();
}

base::Status reopen_topic(const base::DataFolder& folder, const Config& config) {
  Owning owning(folder, config);
  if (auto opened = owning.open(true); !opened) return opened;
  return owning.own();
}

base::Result<journal::Move> close_topic(const base::DataFolder& folder, const Config& config,
                                        journal::Move move) {
  Owning owning(folder, config);
  if (auto opened = owning.open(false); !opened) return std::unexpected(opened.error());
  if (auto owned = owning.own(); !owned) return std::unexpected(owned.error());
  auto closed = owning.close(std::move(move));
  SG_CRASH_POINT("migrate.topic_closed");
  return closed;
}

}  // namespace sandglass::engine::server::migrate
