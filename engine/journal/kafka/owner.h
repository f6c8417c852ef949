// The owner's writing (J24): batches go pipelined into one open transaction; a batch is durable when all its
// messages are delivered, and then its rows are written to the view. A commit only publishes what is durable
// already to those who read what is committed.
//
//   none ──batch──▶ open ──interval, tail too long, idle──▶ draining ──all delivered──▶ committing ──▶ none
//                     ▲                                                                               │
//                     └──────────── a filler, while busy: the next batch need not wait ◀──────────────┘
//
// While it drains and commits, batches wait. Any error ends the ownership: every batch that is not durable is
// answered, nothing is tried again (J27). An error, too, is a message that is delivered no further on in the
// log than the one before it: brokers have lost what lay between, and would take what follows as if nothing
// had been (an unclean election). The next takeover finds what is missing.
//
// Thread rule: stepped by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/journal/journal.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/broker.h"

namespace sandglass::engine::journal::kafka {

struct OwnerOptions {
  std::int64_t publish_interval_ms = 1000;
  std::int64_t idle_ms = 5000;
  std::size_t max_tail_bytes = 64 << 20;
};

class Owner {
 public:
  /// All must outlive this; the rule stands where the takeover ended.
  Owner(Broker& broker, AppliedView& view, ApplyRule& rule, OwnerOptions options)
      : broker_(broker),
        view_(view),
        rule_(rule),
        options_(options),
        submitted_chain_(rule.head().chain),
        log_end_(view.position().offset) {}

  void submit(Ticket ticket, Batch batch);
  void take(const BrokerEvent& event, base::MonotonicNs now_ns);
  /// Does what can be done now, and tells batches that have ended, in order.
  void step(base::MonotonicNs now_ns, std::vector<Completed>& completed);
  /// When step() has something to do by itself.
  std::optional<base::MonotonicNs> due_ns() const;

  /// Ends the ownership, telling every batch that has not ended.
  void give_up(std::vector<Completed>& completed);
  /// Publishes what there is and opens no transaction for the sake of haste: nobody will write any more.
  void finish();
  bool finished() const;

  /// The ownership has ended: journal_fenced or outcome_unknown.
  std::optional<base::Error> over() const;
  const JournalCounters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { none, open, draining, committing };
  struct Waiting {
    Ticket ticket = 0;
    Batch batch;
    std::vector<Message> messages;  // of the records
    std::size_t produced = 0;       // records that are with the broker
    std::size_t delivered = 0;
    std::int64_t offset = -1;  // of the newest delivered record
    bool whole() const { return delivered == batch.records.size(); }
  };
  void end(Completion completion, std::string why);
  void produce_waiting(base::MonotonicNs now_ns);
  bool produce(Waiting& waiting, base::MonotonicNs now_ns);
  bool begin(base::MonotonicNs now_ns);
  void delivered(const BrokerEvent& event);
  void apply_whole(std::vector<Completed>& completed);
  void committed(base::MonotonicNs now_ns);
  bool publish_due(base::MonotonicNs now_ns) const;

  Broker& broker_;
  AppliedView& view_;
  ApplyRule& rule_;
  OwnerOptions options_;

  State state_ = State::none;
  bool finishing_ = false;
  base::MonotonicNs began_ns_ = 0;        // of the transaction
  base::MonotonicNs last_record_ns_ = 0;  // when a record was produced last
  std::size_t tail_bytes_ = 0;            // in the transaction
  std::size_t undelivered_ = 0;
  base::Hash256 submitted_chain_;  // of the newest record

  std::deque<Waiting> waiting_;  // oldest first: with the broker, then those that are not yet
  std::size_t first_unproduced_ = 0;
  core::Sequence newest_delivered_ = 0;  // applied, in the present or an earlier transaction
  std::int64_t newest_offset_ = -1;
  std::int64_t log_end_;  // the newest message of ours lies here

  struct Over {
    Completion completion = Completion::unknown;
    std::string why;
  };
  std::optional<Over> over_;
  JournalCounters counters_;
};

}  // namespace sandglass::engine::journal::kafka
