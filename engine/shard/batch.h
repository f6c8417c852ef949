// Batches of one partition: records that go to the journal together, and what may leave once they are durable
// (J5).
//
//   open ──submit──▶ in flight ──durable, in order──▶ released
//                        └──fenced, unknown──▶ the ownership has ended (J6)
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/fold/record_maker.h"
#include "engine/journal/journal.h"
#include "engine/shard/resident.h"

namespace sandglass::engine::shard {

using Held = std::move_only_function<void(bool durable)>;

/// A record of a batch, besides its bytes.
struct ClosedRecord {
  Resident* resident = nullptr;  // cannot be evicted before the record is durable
  codec::TurnHeader header;
  std::vector<core::Action> actions;
  std::vector<core::Message> messages;
};

struct Batch {
  std::uint64_t number = 0;
  journal::Ticket ticket = 0;
  std::vector<core::OrderedRecord> records;
  fold::ViewChanges changes;
  std::vector<ClosedRecord> closed;
  std::vector<Held> held;
  std::size_t bytes = 0;
  std::optional<base::MonotonicNs> waits_since;  // for activations
};

class Batches {
 public:
  Batches(core::PartitionId partition, const journal::Ownership& ownership);

  Batch& open() { return open_; }
  const Batch& open() const { return open_; }
  core::OwnerEpoch epoch() const { return epoch_; }
  std::uint64_t durable_number() const { return durable_; }
  std::size_t in_flight() const { return in_flight_.size(); }

  /// The record is closed: it will be in the open batch.
  void add(fold::MadeRecord made, Resident& resident, AfterDurable after);
  /// Runs once batch `number` is durable: at the next release if it is already, in order otherwise.
  void hold(std::uint64_t number, Held held);

  /// Gives the open batch its sequences and links, hands it to the journal and opens the next.
  void submit(journal::Journal& journal);
  /// The oldest batch in flight is durable.
  Batch durable(journal::Ticket ticket);
  /// What was held for batches that are durable already.
  std::vector<Held> take_ready();
  /// The ownership has ended: everything that was held, in order.
  std::vector<Held> take_all();

 private:
  core::PartitionId partition_;
  core::OwnerEpoch epoch_;
  core::Sequence last_sequence_;
  base::Hash256 chain_;
  std::uint64_t durable_ = 0;
  Batch open_;
  std::deque<Batch> in_flight_;
  std::vector<Held> ready_;
};

}  // namespace sandglass::engine::shard
