// The Journal port on a MemoryDisk, for simulation and tests: syncs happen by chance inside poll(), a
// completion may be told long after its sync, and outcomes can be made to fail. A crash is: destroy the
// journal, disk.crash().
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/journal/journal.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/memory/disk.h"
#include "engine/view/memory/view.h"

namespace sandglass::engine::journal {

struct MemoryJournalOptions {
  JournalMeta meta{.journal_id = "memory", .partitions = 8};  // of a new disk; an old one has its own
  std::uint32_t sync_per_mille = 600;                         // chance that a poll syncs something
  std::uint32_t report_per_mille = 700;  // chance that a poll tells settled tickets of a partition
  std::uint32_t unknown_per_mille = 0;   // chance that a submitted batch ends unknown
};

class MemoryJournal final : public Journal {
 public:
  /// Both must outlive the journal.
  MemoryJournal(view::MemoryDisk& disk, base::Random& random, MemoryJournalOptions options = {});
  ~MemoryJournal() override;

  base::Result<Ownership> own(core::PartitionId partition) override;
  Ticket submit(Batch batch) override;
  void poll(std::vector<Completed>& completed) override;
  JournalCounters counters() const override { return counters_; }

  /// The partition's next batch ends like this. `unknown`: whether it was written is drawn by chance.
  void fail_next(core::PartitionId partition, Completion completion);
  /// Tickets that have not been told.
  std::size_t waiting() const;
  const JournalMeta& meta() const { return meta_; }

 private:
  struct Pending {
    Completed answer;
    core::OwnerEpoch epoch = 0;
    view::MemoryDisk::WriteId write = 0;  // 0: nothing to sync
  };
  struct Partition {
    explicit Partition(const Ownership& ownership) : guard(ownership) {}
    SequenceGuard guard;
    bool over = false;              // the ownership has ended
    std::deque<Completed> settled;  // not yet told
    std::vector<Completion> to_fail;
  };

  bool is_owner(core::PartitionId partition, core::OwnerEpoch epoch) const;
  void settle_some();
  void settle(Pending pending);

  view::MemoryDisk& disk_;
  base::Random& random_;
  MemoryJournalOptions options_;
  JournalMeta meta_;
  view::MemoryView view_;  // blocking reads only
  Ticket last_ticket_ = 0;
  std::map<core::PartitionId, Partition> partitions_;
  std::deque<Pending> queue_;  // in the order of the disk's writes
  JournalCounters counters_;
};

}  // namespace sandglass::engine::journal
