#include "engine/shard/shard_set.h"

#include <algorithm>
#include <utility>

#include "engine/base/log.h"
#include "engine/codec/record.h"
#include "engine/shard/partition_stream.h"
#include "engine/view/keys.h"

namespace sandglass::engine::shard {
namespace {

/// While activations or deliveries wait for company, poll() wants to be called this often.
constexpr std::int64_t kBusyWakeMs = 1;
constexpr std::int64_t kIdleWakeMs = 1000;

base::Error lost_error() {
  return {base::Code::outcome_unknown,
          "the engine has lost its journal and is restarting; retry with the same request id"};
}

/// Why no partition is served: all of them are one owner's, who recovers as a whole (J6).
std::unexpected<base::Error> of_partition(core::PartitionId partition, base::Error error) {
  error.message = "partition " + std::to_string(partition) + ": " + error.message;
  return std::unexpected(std::move(error));
}

}  // namespace

void register_partition_kind(fold::Registry& kinds) {
  kinds.add(std::make_shared<PartitionKind>());
}

base::Result<std::unique_ptr<ShardSet>> ShardSet::open(const ShardConfig& config, EnginePorts ports) {
  std::unique_ptr<ShardSet> set(new ShardSet(config, ports));
  for (core::PartitionId partition = 0; partition < config.partitions; ++partition) {
    const auto ownership = ports.journal.own(partition);
    if (!ownership) return of_partition(partition, ownership.error());
    set->shards_.push_back(
        std::make_unique<Shard>(config, partition, *ownership,
                                ShardPorts{ports.kinds, ports.reads, ports.journal, ports.activator,
                                           ports.dispatcher, *set, set->ports_.on_damaged}));
  }
  for (core::PartitionId partition = 0; partition < config.partitions; ++partition) {
    auto status = set->shards_[partition]->recover(ports.view);
    if (!status) return of_partition(partition, status.error());
  }
  return set;
}

Shard& ShardSet::shard_of(const core::StreamId& stream) {
  return *shards_[fold::partition_of(stream, config_.partitions)];
}

void ShardSet::submit(CommandEnvelope envelope) {
  if (!lost_) return shard_of(envelope.target).submit(std::move(envelope));
  if (envelope.on_reply) envelope.on_reply(std::unexpected(lost_error()));
}

void ShardSet::read(const core::StreamId& stream, ReadFn on_read) {
  if (!lost_) return shard_of(stream).read(stream, std::move(on_read));
  on_read(std::unexpected(lost_error()));
}

void ShardSet::ask(const core::StreamId& stream, core::Question question, SaidFn on_said) {
  if (!lost_) return shard_of(stream).ask(stream, std::move(question), std::move(on_said));
  on_said(std::unexpected(lost_error()));
}

FollowId ShardSet::follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                          RecordsFn on_records) {
  if (!lost_) return shard_of(stream).follow(stream, from_seq, limit, std::move(on_records));
  on_records(std::unexpected(lost_error()));
  return 0;
}

void ShardSet::cancel_follow(const core::StreamId& stream, FollowId id) {
  if (!lost_) shard_of(stream).cancel_follow(id);
}

void ShardSet::read_payload(const core::StreamId& stream, const core::PayloadRef& ref, PayloadFn on_payload) {
  if (lost_) return on_payload(std::unexpected(lost_error()));
  ports_.reads.get(
      view::record_key(stream, ref.seq), [stream, ref, on_payload = std::move(on_payload)](
                                             base::Result<std::optional<std::string>> row) mutable {
        if (!row) return on_payload(std::unexpected(row.error()));
        if (!*row) {
          return on_payload(
              base::fail(base::Code::not_found, stream.text() + " has no record " + std::to_string(ref.seq)));
        }
        const auto record = codec::decode_record(stream, ref.seq, **row);
        if (!record) return on_payload(std::unexpected(record.error()));
        if (ref.slot >= record->slots.size()) {
          return on_payload(
              base::fail(base::Code::not_found, stream.text() + " record " + std::to_string(ref.seq) +
                                                    " has no payload " + std::to_string(ref.slot)));
        }
        on_payload(core::Payload{record->slots[ref.slot], ref.digest});
      });
}

bool ShardSet::poll(const Now& now) {
  if (lost_) return false;
  now_ = now;
  bool any = false;

  completed_.clear();
  ports_.journal.poll(completed_);
  for (const auto& completed : completed_) any |= shards_[completed.partition]->completed(completed);
  any |= ports_.reads.poll();
  finished_.clear();
  ports_.dispatcher.poll(finished_);
  any |= !finished_.empty();
  for (auto& action : finished_) shard_of(action.stream).finished(std::move(action));

  for (auto& shard : shards_) any |= shard->decide(now);
  answers_.clear();
  ports_.activator.poll(answers_);
  for (auto& answer : answers_) {
    Shard& shard = shard_of(answer.stream);
    any |= shard.answered(std::move(answer), now);
  }
  for (auto& shard : shards_) {
    if (!answers_.empty()) shard->activator_answered(now);
    any |= shard->close_batch(now);
  }
  for (auto& shard : shards_) any |= shard->release();
  for (auto& shard : shards_) shard->evict();
  for (auto& shard : shards_) {
    if (shard->failure()) {
      lose(*shard->failure());
      return true;
    }
  }
  return any;
}

std::int64_t ShardSet::next_wake_ms(const Now& now) const {
  std::int64_t wake = now.wall_ms + (quiet() ? kIdleWakeMs : kBusyWakeMs);
  if (const auto due = ports_.dispatcher.next_due_ms()) wake = std::min(wake, *due);
  for (const auto& shard : shards_) {
    if (const auto due = shard->next_due_ms(now)) wake = std::min(wake, *due);
  }
  return wake;
}

void ShardSet::lose(const base::Error& error) {
  lost_ = error;
  base::log(base::LogLevel::warning, "ownership_lost",
            {{"code", base::name_of(error.code)}, {"reason", error.message}});
  ports_.activator.evict_all();
  ports_.dispatcher.abandon_all();
  ports_.reads.abandon_all();
  for (auto& shard : shards_) shard->lose();
}

ShardCounters ShardSet::counters() const {
  ShardCounters sum;
  for (const auto& shard : shards_) sum += shard->counters();
  return sum;
}

bool ShardSet::quiet() const {
  return std::ranges::all_of(shards_, [](const auto& shard) { return shard->quiet(); });
}

void ShardSet::deliver(core::Message message) {
  Shard& shard = shard_of(message.target);
  shard.deliver(std::move(message));
}

void ShardSet::arrived(const codec::ConsumedMessage& message, const core::StreamId& target) {
  shard_of(message.source).arrived(message, target, now_.monotonic_ns);
}

void ShardSet::closed(const codec::ConsumedMessage& message, const core::StreamId& target) {
  shard_of(message.source).closed(message, target);
}

void ShardSet::forget(const delivery::Forgotten& inbox) {
  shard_of(inbox.target).forget(inbox, now_.monotonic_ns);
}

}  // namespace sandglass::engine::shard
