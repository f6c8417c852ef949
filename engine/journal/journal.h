// Port: the journal. Records go in with the view changes that they cause; what is durable is told later, in
// order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal {

enum class Completion : std::uint8_t {
  durable,
  fenced,   // another is owner: step down, stay standby
  unknown,  // may or may not be in the journal: the ownership has ended (J6)
};

struct Batch {
  core::PartitionId partition = 0;
  std::vector<core::OrderedRecord> records;    // consecutive sequences
  std::vector<view::ViewChange> view_changes;  // derived from these records alone
};

using Ticket = std::uint64_t;
struct Completed {
  Ticket ticket = 0;
  core::PartitionId partition = 0;
  Completion completion = Completion::durable;
  std::string message;  // why it is not durable
};

/// Where a partition stands when its owner opens it.
struct Ownership {
  core::OwnerEpoch epoch = 0;
  core::Sequence last_sequence = 0;  // 0: empty
  base::Hash256 chain;               // of last_sequence, or the genesis chain
};

/// What a journal has done, for benches and metrics.
struct JournalCounters {
  std::uint64_t batches = 0;
  std::uint64_t syncs = 0;
  std::uint64_t records = 0;
  std::uint64_t puts = 0;
  std::uint64_t bytes = 0;
};

/// Thread rule: one thread calls; adapters may write on threads of their own. Tickets of one partition
/// complete in order. After a completion other than durable nothing of that partition is accepted (J6).
class Journal {
 public:
  virtual ~Journal() = default;

  /// Blocking; before anything else of this partition. The new epoch is durable when it returns.
  virtual base::Result<Ownership> own(core::PartitionId partition) = 0;
  virtual Ticket submit(Batch batch) = 0;
  virtual void poll(std::vector<Completed>& completed) = 0;
  virtual JournalCounters counters() const = 0;
};

}  // namespace sandglass::engine::journal
