// The Journal port on Kafka: one worker thread steps every partition with the events of its broker.
//
//   own(p) ─▶ Takeover ─▶ Owner ◀── submit        stand_by(p) ─▶ reads along until own(p)
//
// A shard's view changes are written to the view after the acknowledgement, without a log (J7). After any
// error a partition is over until it is owned anew, by a takeover from the beginning (J27).
//
// Thread rule: own, begin_owning, stand_by, submit and poll from one thread; `projection` is called on the
// worker, `on_completion` too, and must not block. Errors of own(): as takeover.h says.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/journal/journal.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/broker.h"
#include "engine/journal/kafka/owner.h"
#include "engine/journal/kafka/takeover.h"
#include "engine/journal/rows/rows.h"

namespace sandglass::engine::journal::kafka {

/// The journal's id: every node that sees this topic of this cluster makes the same one, and nobody else.
std::string journal_id_of(const std::string& cluster, const std::string& topic);
/// Whether an id was made so.
bool is_kafka_journal(std::string_view journal_id);

/// Makes a partition's broker. `wake_fd` is an eventfd that it adds to when poll() has something.
using BrokerFactory = std::function<base::Result<std::unique_ptr<Broker>>(core::PartitionId, int wake_fd)>;

struct KafkaJournalOptions {
  JournalMeta meta;  // written if the view is new; an old one must have the same journal id and partitions
  BrokerFactory brokers;
  Projection projection;  // may be null: records alone
  OwnerOptions owner;
  std::int64_t published_deadline_ms = 60'000;
  bool republish_from_view = false;
  bool reopen = false;  // a move to another place is given up
  OwnerMark self;       // takeover.h
  std::vector<Skip> skips;
  std::int64_t close_ms = 3'000;        // at its end, for publishing what is durable
  std::function<void()> on_completion;  // may be null; tells that poll() has something
};

class KafkaJournal final : public Journal {
 public:
  /// Clock and random must outlive the journal, as must what `store` refers to.
  static base::Result<std::unique_ptr<KafkaJournal>> open(ViewStore store, const base::Clock& clock,
                                                          base::Random& random, KafkaJournalOptions options);
  /// Publishes what is durable, if the brokers answer in time; completions are lost with the object.
  ~KafkaJournal() override;

  base::Result<Ownership> own(core::PartitionId partition) override;
  Ticket submit(Batch batch) override;
  void poll(std::vector<Completed>& completed) override;
  JournalCounters counters() const override;

  /// Starts taking the partition over; own() then waits for the end of it. Many go on side by side.
  void begin_owning(core::PartitionId partition);
  /// Waits for the end of it; own() is still to be called.
  base::Status wait_owned(core::PartitionId partition);
  /// Applies what its owner writes, until it is owned here.
  void stand_by(core::PartitionId partition);
  /// Why a partition that stands by has stopped doing so, if it has; and up to where it has applied.
  struct Standing {
    AppliedHead head;
    std::optional<base::Error> error;
  };
  Standing standing(core::PartitionId partition) const;

  const JournalMeta& meta() const { return meta_; }
  /// Of the newest takeover of the partition.
  Takeover::Times takeover_times(core::PartitionId partition) const;

 private:
  struct Part;
  struct Waiting {
    Ticket ticket = 0;
    std::uint64_t ownership = 0;
    Batch batch;
  };
  /// How a partition's ownership stands, for the calling thread.
  struct Result {
    std::uint64_t ownership = 0;  // counts ownerships of the partition on this object
    bool decided = false;
    base::Result<Ownership> owned = Ownership{};
    Takeover::Times times;
    AppliedHead head;
    std::optional<base::Error> error;
  };
  enum class Order : std::uint8_t { own, stand_by };

  KafkaJournal(ViewStore store, const base::Clock& clock, base::Random& random, JournalMeta meta,
               KafkaJournalOptions options);
  void wake() const;
  void work();
  bool step_all();
  void obey(core::PartitionId partition, Order order);
  void step(Part& part);
  void decide(Part& part);
  void begin_takeover(Part& part);
  void close_part(core::PartitionId partition);
  void finish_all();
  void sleep() const;
  Takeover::Now now() const;

  ViewStore store_;
  const base::Clock& clock_;
  base::Random& random_;
  const JournalMeta meta_;
  const KafkaJournalOptions options_;
  base::UniqueFd event_;

  // Of the calling thread.
  Ticket last_ticket_ = 0;
  std::map<core::PartitionId, SequenceGuard> owned_;
  std::map<core::PartitionId, bool> begun_;

  mutable std::mutex mutex_;
  std::condition_variable decided_;
  bool stopping_ = false;
  std::vector<std::pair<core::PartitionId, Order>> orders_;
  std::vector<Waiting> waiting_;
  std::vector<Completed> completed_;
  std::map<core::PartitionId, Result> results_;
  JournalCounters counters_;

  // Of the worker.
  std::map<core::PartitionId, std::unique_ptr<Part>> parts_;
  std::vector<BrokerEvent> events_;
  std::vector<Completed> told_;

  std::thread worker_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal::kafka
