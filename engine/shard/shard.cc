#include "engine/shard/shard.h"

#include <algorithm>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/shard/partition_stream.h"
#include "engine/view/keys.h"

namespace sandglass::engine::shard {
namespace {

constexpr std::size_t kTimersPerPoll = 1000;
constexpr std::size_t kSettleAtOnce = 256;
constexpr std::size_t kEvictPerPoll = 64;
constexpr std::size_t kTurnsKeptForCoroutine = 256;
constexpr std::int64_t kLowWaterStepMs = 10'000;
constexpr std::int64_t kLongestWait = 10;  // of a batch, in activation_waits
constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kNsPerUs = 1'000;

base::Error unknown_outcome() {
  return {base::Code::outcome_unknown,
          "the engine lost its journal before the answer was durable; retry with the same request id"};
}

}  // namespace

Shard::Shard(const ShardConfig& config, core::PartitionId partition, const journal::Ownership& ownership,
             ShardPorts ports)
    : config_(config),
      partition_(partition),
      own_stream_(partition_stream(partition, config.partitions)),
      ports_(ports),
      loader_(ports.reads, config.max_loads),
      timers_(ports.reads, {partition, config.timer_horizon_ms, config.max_timers}),
      followers_(ports.reads),
      batches_(partition, ownership) {
  to_settle_.partition = partition;
}

// ---- inputs

void Shard::enqueue(const core::StreamId& stream, Waiting waiting) {
  Resident& resident = streams_.touch(stream);
  resident.queue.push_back(std::move(waiting));
  ++queued_;
  wake(resident);
}

void Shard::wake(Resident& stream) {
  if (stream.runnable || stream.next_batch) return;
  stream.runnable = true;
  runnable_.push_back(&stream);
}

void Shard::submit(CommandEnvelope envelope) {
  if (failure_) {
    if (envelope.on_reply) envelope.on_reply(std::unexpected(unknown_outcome()));
    return;
  }
  if (waiting_calls_ >= config_.max_waiting && envelope.target != own_stream_) {
    ++counters_.refused;
    batches_.hold(0, [on_reply = std::move(envelope.on_reply)](bool) mutable {
      if (on_reply) on_reply(base::fail(base::Code::overloaded, "too many calls are waiting; retry later"));
    });
    return;
  }
  ++waiting_calls_;
  const core::StreamId target = envelope.target;
  enqueue(target, std::move(envelope));
}

void Shard::read(const core::StreamId& stream, ReadFn on_read) {
  if (failure_) return on_read(std::unexpected(unknown_outcome()));
  ++waiting_calls_;
  enqueue(stream, ReadEnvelope{std::move(on_read)});
}

void Shard::ask(const core::StreamId& stream, core::Question question, SaidFn on_said) {
  if (failure_) return on_said(std::unexpected(unknown_outcome()));
  if (waiting_calls_ >= config_.max_waiting) {
    ++counters_.refused;
    return on_said(base::fail(base::Code::overloaded, "too many calls are waiting; retry later"));
  }
  ++waiting_calls_;
  enqueue(stream, QuestionEnvelope{std::move(question), std::move(on_said)});
}

FollowId Shard::follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                       RecordsFn on_records) {
  return followers_.follow(stream, from_seq, limit, std::move(on_records));
}

void Shard::finished(core::FinishedAction action) {
  enqueue(action.stream, std::move(action.finished));
}

void Shard::deliver(core::Message message) {
  const core::StreamId target = message.target;
  enqueue(target, std::move(message));
}

void Shard::arrived(const codec::ConsumedMessage& message, const core::StreamId& target,
                    base::MonotonicNs now_ns) {
  if (to_settle_.arrived.empty() && to_settle_.forgotten.empty()) settle_since_ns_ = now_ns;
  to_settle_.arrived.push_back({message.source, message.source_seq, message.index});
  if (message.closing) closings_.push_back({target, message.source});
}

/// While the delivery has its row it comes again, and what follows from that drops the inbox row.
void Shard::closed(const codec::ConsumedMessage& message, const core::StreamId& target) {
  ports_.reads.get(view::undelivered_key(partition_, message.source, message.source_seq, message.index),
                   [this, inbox = delivery::Forgotten{target, message.source}](
                       base::Result<std::optional<std::string>> row) {
                     if (row && !*row) return ports_.neighbours.forget(inbox);
                     if (!row && row.error().code != base::Code::record_damaged) fail(row.error());
                   });
}

void Shard::forget(const delivery::Forgotten& inbox, base::MonotonicNs now_ns) {
  if (to_settle_.arrived.empty() && to_settle_.forgotten.empty()) settle_since_ns_ = now_ns;
  to_settle_.forgotten.push_back(inbox);
  if (Resident* target = streams_.find(inbox.target)) target->inbox.erase(inbox.source);
}

// One record of the partition's own stream books many deliveries.
void Shard::settle_deliveries(const Now& now) {
  const std::size_t waiting = to_settle_.arrived.size() + to_settle_.forgotten.size();
  if (waiting == 0) return;
  if (waiting < kSettleAtOnce &&
      now.monotonic_ns - settle_since_ns_ < config_.acknowledge_after_ms * kNsPerMs) {
    return;
  }
  auto settled = std::exchange(to_settle_, {.partition = partition_, .arrived = {}, .forgotten = {}});
  using Kind = delivery::DeliveryDecider::Command;
  submit({.target = own_stream_,
          .command = core::make_command<Kind>(delivery::Settle{std::move(settled)}),
          .on_reply = [this, closings = std::exchange(closings_, {})](const base::Result<Reply>& reply) {
            if (!reply) return;
            SG_CRASH_POINT("shard.deliveries_booked");
            for (const auto& inbox : closings) ports_.neighbours.forget(inbox);
          }});
}

// ---- batches

bool Shard::batch_full() {
  const Batch& batch = batches_.open();
  return batch.records.size() >= config_.max_batch_records || batch.bytes >= config_.max_batch_bytes;
}

bool Shard::decide(const Now& now) {
  now_ = now;
  settle_deliveries(now);
  due_.clear();
  timers_.poll(now, kTimersPerPoll, due_);
  if (!timers_.status()) fail(timers_.status().error());
  for (DueTimer& timer : due_) {
    const core::StreamId stream = timer.stream;
    enqueue(stream, std::move(timer));
  }
  bool any = false;
  while (!runnable_.empty() && !batch_full() && !failure_) {
    Resident& stream = *runnable_.front();
    runnable_.pop_front();
    stream.runnable = false;
    run_queue(stream, now);
    any = true;
  }
  return any;
}

/// Whether the open batch goes although activations have not answered: they had their time, and the journal
/// would have nothing to do while it waits on. Their time begins anew with each answer of anybody, up to a
/// limit: an activator that is at work is not late.
bool Shard::goes_without_answers(const Now& now) {
  if (batch_full()) return true;
  if (batches_.in_flight() > 0) return false;
  const base::MonotonicNs since = batches_.open().waits_since.value_or(now.monotonic_ns);
  const std::int64_t wait_ns = config_.activation_wait_us * kNsPerUs;
  return now.monotonic_ns - std::max(since, last_answer_ns_) >= wait_ns ||
         now.monotonic_ns - since >= kLongestWait * wait_ns;
}

bool Shard::close_batch(const Now& now) {
  Batch& batch = batches_.open();
  if (failure_ || (batch.records.empty() && open_turns_.empty())) return false;
  if (batches_.in_flight() >= config_.max_batches_in_flight) return false;
  if (!open_turns_.empty() && !goes_without_answers(now)) return false;
  close_late();
  write_low_water(batch);
  ++counters_.batches;
  batches_.submit(ports_.journal);
  for (Resident* stream : std::exchange(next_batch_, {})) {
    stream->next_batch = false;
    wake(*stream);
  }
  return true;
}

// The mark only has to be low enough; it is written when it has moved far, or must go back.
void Shard::write_low_water(Batch& batch) {
  const std::int64_t low = timers_.low_water_ms();
  if (low >= low_water_ms_ && low < low_water_ms_ + kLowWaterStepMs) return;
  low_water_ms_ = low;
  std::string value;
  view::put_u64(value, view::sortable(low));
  batch.changes.push_back({view::low_water_key(partition_, view::Index::due), std::move(value)});
}

// ---- what may leave (J5)

void Shard::hold(const Resident& stream, Held held) {
  batches_.hold(stream.newest_batch, std::move(held));
}

void Shard::refuse(Resident& stream, ReplyFn on_reply, base::Error error) {
  ++counters_.refused;
  if (!on_reply) return;
  hold(stream, [on_reply = std::move(on_reply), error = std::move(error)](bool durable) mutable {
    on_reply(std::unexpected(durable ? std::move(error) : unknown_outcome()));
  });
}

bool Shard::completed(const journal::Completed& completed) {
  if (failure_) return false;
  if (completed.completion != journal::Completion::durable) {
    const bool fenced = completed.completion == journal::Completion::fenced;
    fail({fenced ? base::Code::journal_fenced : base::Code::outcome_unknown,
          "partition " + std::to_string(partition_) + ": " + completed.message});
    return true;
  }
  SG_CRASH_POINT("shard.durable_before_release");
  Batch batch = batches_.durable(completed.ticket);
  for (ClosedRecord& closed : batch.closed) release_record(closed);
  for (Held& held : batch.held) held(true);
  SG_CRASH_POINT("shard.released");
  return true;
}

void Shard::release_record(ClosedRecord& closed) {
  Resident& stream = *closed.resident;
  const codec::TurnHeader& header = closed.header;
  stream.durable_seq = header.seq;
  forget_turns(stream);
  timers_.durable(stream.stream, header);
  if (!header.request_id.empty()) stream.requests.erase(header.request_id);
  if (header.consumed && fold::partition_of(header.consumed->source, config_.partitions) != partition_) {
    ports_.neighbours.arrived(*header.consumed, stream.stream);
  }
  for (core::Message& message : closed.messages) ports_.neighbours.deliver(std::move(message));
  for (core::Action& action : closed.actions) ports_.dispatcher.submit(stream.stream, std::move(action));
  followers_.grown(stream.stream);
}

/// Turns are kept while they are not in the view, while a live coroutine has not seen them, and while they
/// are being shown to one.
void Shard::forget_turns(Resident& stream) {
  if (stream.in_use()) return;
  if (stream.coroutine_head != 0 && stream.recent.size() > kTurnsKeptForCoroutine) {
    ports_.activator.evict(stream.stream);
    streams_.coroutine_gone(stream);
  }
  const std::uint64_t needed =
      stream.coroutine_head != 0 ? std::min(stream.durable_seq, stream.seen_seq) : stream.durable_seq;
  while (!stream.recent.empty() && stream.recent.front().info.seq <= needed) stream.recent.pop_front();
}

bool Shard::release() {
  auto ready = batches_.take_ready();
  for (Held& held : ready) held(true);
  return !ready.empty();
}

void Shard::evict() {
  for (Resident* stream : streams_.coroutines_beyond(config_.max_live, kEvictPerPoll)) {
    ports_.activator.evict(stream->stream);
    streams_.coroutine_gone(*stream);
    forget_turns(*stream);
  }
  for (Resident* stream :
       streams_.evictable(config_.max_resident, batches_.durable_number(), kEvictPerPoll)) {
    if (stream->coroutine_head != 0) ports_.activator.evict(stream->stream);
    ++counters_.evictions;
    streams_.erase(*stream);
  }
}

bool Shard::quiet() const {
  return queued_ == 0 && runnable_.empty() && next_batch_.empty() && open_turns_.empty() &&
         batches_.in_flight() == 0 && batches_.open().records.empty() && loader_.loading() == 0 &&
         to_settle_.arrived.empty() && to_settle_.forgotten.empty();
}

// ---- the end of an ownership (J6)

void Shard::fail(base::Error error) {
  if (!failure_) failure_ = std::move(error);
}

void Shard::lose() {
  fail(unknown_outcome());
  for (Held& held : batches_.take_all()) held(false);
  const auto answer_waiting = [](Waiting& waiting) {
    if (auto* call = std::get_if<CommandEnvelope>(&waiting); call != nullptr && call->on_reply) {
      call->on_reply(std::unexpected(unknown_outcome()));
    } else if (auto* read = std::get_if<ReadEnvelope>(&waiting)) {
      read->on_read(std::unexpected(unknown_outcome()));
    } else if (auto* question = std::get_if<QuestionEnvelope>(&waiting)) {
      question->on_said(std::unexpected(unknown_outcome()));
    }
  };
  streams_.for_each([&](Resident& stream) {
    if (stream.open && stream.open->record) {
      for (auto& held : stream.open->record->after.held) held(false);
    }
    for (Waiting& waiting : stream.queue) answer_waiting(waiting);
  });
  followers_.end_all(unknown_outcome());
  loader_.abandon_all();
  runnable_.clear();
  next_batch_.clear();
  open_turns_.clear();
  streams_.clear();
  queued_ = waiting_calls_ = 0;
}

}  // namespace sandglass::engine::shard
