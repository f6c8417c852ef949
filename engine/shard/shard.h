// One partition: the single writer of its streams. This is the loop of DESIGN §1.
//
//   inputs ──▶ queue of the stream ──▶ pass 1: decide, evolve ──▶ record closed ────────────────┐
//   (calls, completions, messages,         │ makes workflow code runnable                       ▼
//    timers)                               ▼                                               open batch
//                                     record open ──▶ Activator ──▶ pass 2: output decided,     │ all
//                                     answered, or 1 ms
//                                                                   same record, closed ───────▶│ (late: J12)
//                                                                                               ▼
//   released, strictly in batch order: replies, reads, actions, messages ◀── durable ◀── journal (J5)
//
// Files: shard.cc inputs, batches, release · shard_decide.cc pass 1 · shard_activate.cc pass 2 ·
// shard_ask.cc questions to workflow code · shard_recover.cc what happens on opening. State is in small parts
// of their own: resident.h, batch.h, loader.h, due_timers.h, followers.h.
//
// Thread rule: one thread; nothing blocks but recover(). Time comes with each poll (J31).
// Errors: calls are answered with an Error. What ends the ownership is in failure(): then lose() answers
// everybody with outcome_unknown, and the shard is done (J6).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/ports/activator.h"
#include "engine/core/ports/dispatcher.h"
#include "engine/delivery/delivery.h"
#include "engine/fold/stream_kind.h"
#include "engine/journal/journal.h"
#include "engine/shard/batch.h"
#include "engine/shard/due_timers.h"
#include "engine/shard/envelope.h"
#include "engine/shard/followers.h"
#include "engine/shard/loader.h"
#include "engine/shard/resident.h"
#include "engine/shard/view_reads.h"

namespace sandglass::engine::shard {

/// What a shard says to the others; messages are durable when it does (J18).
class Neighbours {
 public:
  virtual ~Neighbours() = default;
  virtual void deliver(core::Message message) = 0;
  /// `message` of a stream elsewhere is applied here.
  virtual void arrived(const codec::ConsumedMessage& message, const core::StreamId& target) = 0;
  /// Closing `message` was applied here once; what else is needed for its inbox row to be dropped?
  virtual void closed(const codec::ConsumedMessage& message, const core::StreamId& target) = 0;
  /// It is booked there that a closing message has arrived.
  virtual void forget(const delivery::Forgotten& inbox) = 0;
};

struct ShardPorts {
  const fold::Registry& kinds;
  ViewReads& reads;
  journal::Journal& journal;
  core::Activator& activator;
  core::Dispatcher& dispatcher;
  Neighbours& neighbours;
  /// A stream was found damaged and is parked: it is told once each time that it is loaded. May be null.
  const std::function<void(const core::StreamId&, const base::Error&)>& on_damaged;
};

class Shard {
 public:
  Shard(const ShardConfig& config, core::PartitionId partition, const journal::Ownership& ownership,
        ShardPorts ports);

  /// Blocking, once, before the first poll: queues what was under way (J10).
  base::Status recover(const view::View& view);

  // Inputs.
  void submit(CommandEnvelope envelope);
  void read(const core::StreamId& stream, ReadFn on_read);
  void ask(const core::StreamId& stream, core::Question question, SaidFn on_said);
  FollowId follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                  RecordsFn on_records);
  void cancel_follow(FollowId id) { followers_.cancel(id); }
  void finished(core::FinishedAction action);
  void deliver(core::Message message);
  void arrived(const codec::ConsumedMessage& message, const core::StreamId& target, base::MonotonicNs now_ns);
  void closed(const codec::ConsumedMessage& message, const core::StreamId& target);
  void forget(const delivery::Forgotten& inbox, base::MonotonicNs now_ns);

  // The phases of a poll, in this order; each tells whether it did something.
  bool completed(const journal::Completed& completed);
  bool decide(const Now& now);                                                     // pass 1
  bool answered(core::ActivationAnswer answer, const Now& now);                    // pass 2, and questions
  void activator_answered(const Now& now) { last_answer_ns_ = now.monotonic_ns; }  // anybody
  bool close_batch(const Now& now);
  bool release();
  void evict();

  /// Why the ownership has ended, if it has.
  const std::optional<base::Error>& failure() const { return failure_; }
  /// Drops every decided state and answers everybody.
  void lose();

  const ShardCounters& counters() const { return counters_; }
  /// When the next timer that is in memory is due, in the engine's time.
  std::optional<std::int64_t> next_due_ms(const Now& now) const { return timers_.next_due_ms(now); }
  /// Nothing waits, nothing is open, nothing is in flight.
  bool quiet() const;
  std::size_t residents() const { return streams_.size(); }

 private:
  enum class Step : std::uint8_t { done, waits };  // of the front of a queue
  /// What a record has besides the command's decision.
  struct Cause {
    std::string request_id;
    base::Hash256 request_digest;
    std::optional<codec::ConsumedMessage> consumed;
    std::optional<core::TimerChange> fired;
    ReplyFn on_reply;
  };

  /// What else a decision said.
  struct PartFacts {
    bool activate = false;
    core::Payload reply;
  };

  // shard.cc
  void enqueue(const core::StreamId& stream, Waiting waiting);
  void wake(Resident& stream);
  bool batch_full();
  bool goes_without_answers(const Now& now);
  void hold(const Resident& stream, Held held);
  void refuse(Resident& stream, ReplyFn on_reply, base::Error error);
  void settle_deliveries(const Now& now);
  void write_low_water(Batch& batch);
  void release_record(ClosedRecord& closed);
  void forget_turns(Resident& stream);
  void fail(base::Error error);

  // shard_recover.cc
  base::Status closed(const view::Row& row);

  // shard_decide.cc
  void load(Resident& stream);
  void park(Resident& stream, const base::Error& damage);
  void loaded(Resident& stream, base::Result<fold::StreamFold> fold);
  void run_queue(Resident& stream, const Now& now);
  Step step(Resident& stream, CommandEnvelope& envelope, const Now& now);
  Step step(Resident& stream, core::ActionFinished& finished, const Now& now);
  Step step(Resident& stream, core::Message& message, const Now& now);
  Step step(Resident& stream, DueTimer& timer, const Now& now);
  Step step(Resident& stream, ReadEnvelope& envelope, const Now& now);
  Step step(Resident& stream, QuestionEnvelope& envelope, const Now& now);
  void refuse_front(Resident& stream);
  bool look_up(Resident& stream, std::string key);
  std::optional<Step> answer_repeated(Resident& stream, CommandEnvelope& envelope);
  void repeat_from_record(Resident& stream, std::uint64_t seq, ReplyFn on_reply);
  std::optional<Step> drop_duplicate(Resident& stream, const core::Message& message);
  base::Status decide_turn(Resident& stream, const core::AnyCommand* command, Cause cause, const Now& now);
  std::unique_ptr<RecordInMaking> begin_record(Resident& stream, const Now& now, codec::TurnHeader header);
  base::Status decide_part(Resident& stream, RecordInMaking& record, const core::AnyCommand& command,
                           PartFacts& facts);
  void close_record(Resident& stream, RecordInMaking& record, bool unanswered);

  // shard_activate.cc
  void open_turn(Resident& stream, std::unique_ptr<RecordInMaking> record, std::uint64_t first_seq);
  using ShowFn = std::move_only_function<void(base::Result<std::vector<core::TurnView>>, bool rebuild)>;
  void turns_to_show(Resident& stream, ShowFn show);
  void request_activation(Resident& stream);
  void send_request(Resident& stream, std::vector<core::TurnView> turns, bool rebuild);
  void take_answer(Resident& stream, base::Result<core::CommandPtr> output, const Now& now);
  base::Status decide_output(Resident& stream, const core::AnyCommand& output, const Now& now);
  base::Status decide_pieces(Resident& stream, const std::vector<core::CommandPtr>& pieces, const Now& now);
  void decide_failure(Resident& stream, base::Error error, const Now& now);
  void finish_turn(Resident& stream);
  void close_late();

  // shard_ask.cc
  bool ask_code(Resident& stream, const core::Question& question);
  void said(Resident& stream, base::Result<std::string> said);

  ShardConfig config_;
  core::PartitionId partition_;
  core::StreamId own_stream_;
  ShardPorts ports_;
  ShardCounters counters_;
  std::optional<base::Error> failure_;

  StreamTable streams_;
  Loader loader_;
  DueTimers timers_;
  Followers followers_;
  Batches batches_;

  std::deque<Resident*> runnable_;     // may have something to decide
  std::vector<Resident*> next_batch_;  // go on when the open batch is closed
  std::vector<Resident*> open_turns_;  // with a record in the open batch
  std::size_t queued_ = 0;             // what stands in queues
  std::size_t waiting_calls_ = 0;      // commands and reads in queues
  base::MonotonicNs last_answer_ns_ = 0;
  Now now_;  // of the newest poll

  delivery::DeliveriesSettled to_settle_;
  std::vector<delivery::Forgotten> closings_;  // of to_settle_.arrived
  base::MonotonicNs settle_since_ns_ = 0;

  std::vector<DueTimer> due_;
  std::int64_t low_water_ms_ = 0;  // as persisted
};

}  // namespace sandglass::engine::shard
