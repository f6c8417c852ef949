// The Journal port on RocksDB. One committer thread takes every batch that waits, of all partitions, and
// writes them as one batch with one sync; what comes meanwhile is the next (group commit, J9, J11).
//
// After an error of the database every completion of every partition is `unknown` and nothing is tried again
// on this handle (J6): the process ends and recovers.
//
// Thread rule: own, submit and poll from one thread. `on_completion` is called from the committer and must
// not block.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/journal/journal.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"

namespace sandglass::engine::journal {

struct RocksJournalOptions {
  JournalMeta meta;                     // written if the database is new; an old one has its own
  std::function<void()> on_completion;  // may be null; tells that poll() has something
};

class RocksJournal final : public Journal {
 public:
  /// The database must outlive the journal.
  static base::Result<std::unique_ptr<RocksJournal>> open(view::Database& database,
                                                          RocksJournalOptions options);
  /// Batches that were submitted are still written; their completions are lost with the object.
  ~RocksJournal() override;

  base::Result<Ownership> own(core::PartitionId partition) override;
  Ticket submit(Batch batch) override;
  void poll(std::vector<Completed>& completed) override;
  JournalCounters counters() const override;
  const JournalMeta& meta() const { return meta_; }

 private:
  struct Waiting {
    Ticket ticket = 0;
    core::OwnerEpoch epoch = 0;
    Batch batch;
  };
  struct Group;

  RocksJournal(view::Database& database, JournalMeta meta, std::function<void()> on_completion);
  void work();
  void commit(std::vector<Waiting> taken);
  void add(Waiting waiting, std::map<core::PartitionId, core::OwnerEpoch>& epochs, Group& group);
  void write(Group& group);

  view::Database& database_;
  const view::RocksView view_;  // blocking reads only
  const JournalMeta meta_;
  const std::function<void()> on_completion_;

  // Of the calling thread.
  Ticket last_ticket_ = 0;
  std::map<core::PartitionId, SequenceGuard> owned_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<Waiting> waiting_;
  std::vector<Completed> completed_;
  JournalCounters counters_;

  // Of the committer.
  std::map<core::PartitionId, core::OwnerEpoch> over_;  // ownerships up to this epoch have ended

  std::thread committer_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal
