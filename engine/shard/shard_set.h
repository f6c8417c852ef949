// All partitions of a node over one journal, view, activator and dispatcher: what a server steps, and what
// services call.
//
// Thread rule: one thread for everything, poll() included; callbacks run inside poll(). Nothing blocks but
// open(). Ownership: the ports outlive this. Errors: open() fails when a partition cannot be owned or read.
// Later, lost() says why the ownership has ended: all callers have been answered with outcome_unknown,
// nothing more will happen, and the process exits and recovers (J6).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/payload.h"
#include "engine/shard/shard.h"

namespace sandglass::engine::shard {

struct EnginePorts {
  const fold::Registry& kinds;  // register_partition_kind() is needed as well
  view::View& view;
  ViewReads& reads;  // of that view; shared with the dispatcher
  journal::Journal& journal;
  core::Activator& activator;
  core::Dispatcher& dispatcher;
  /// A stream was found damaged and is parked. May be null.
  std::function<void(const core::StreamId&, const base::Error&)> on_damaged = nullptr;
};

/// The kind that the framework brings itself.
void register_partition_kind(fold::Registry& kinds);

class ShardSet final : private Neighbours {
 public:
  /// Blocking: owns all partitions and queues what was in flight.
  static base::Result<std::unique_ptr<ShardSet>> open(const ShardConfig& config, EnginePorts ports);
  ~ShardSet() override = default;

  void submit(CommandEnvelope envelope);
  /// The stream's state at its decided head, given once that head is durable (J5).
  void read(const core::StreamId& stream, ReadFn on_read);
  /// What the stream's workflow code says to a question, at its decided head; given once that is durable
  /// (J5).
  void ask(const core::StreamId& stream, core::Question question, SaidFn on_said);
  /// Durable records of the stream from `from_seq` on, at least one and at most `limit`; waits for the first.
  FollowId follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                  RecordsFn on_records);
  void cancel_follow(const core::StreamId& stream, FollowId id);
  /// The bytes of a stored payload.
  using PayloadFn = std::move_only_function<void(base::Result<core::Payload>)>;
  void read_payload(const core::StreamId& stream, const core::PayloadRef& ref, PayloadFn on_payload);
  /// Rows of the view, for lists (visibility). They show what is durable.
  ViewReads& reads() { return ports_.reads; }

  /// Does everything that can be done now. False: nothing happened; there is nothing to do until a port has
  /// news, a caller comes, or next_wake_ms().
  bool poll(const Now& now);
  /// Wall time at which poll() has something to do by itself, at the latest.
  std::int64_t next_wake_ms(const Now& now) const;

  const std::optional<base::Error>& lost() const { return lost_; }
  ShardCounters counters() const;
  /// No command waits, no record is open or in flight, no delivery is unbooked. Actions may be under way.
  bool quiet() const;
  std::uint16_t partitions() const { return config_.partitions; }

 private:
  ShardSet(const ShardConfig& config, EnginePorts ports) : config_(config), ports_(ports) {}

  Shard& shard_of(const core::StreamId& stream);
  void lose(const base::Error& error);

  void deliver(core::Message message) override;
  void arrived(const codec::ConsumedMessage& message, const core::StreamId& target) override;
  void closed(const codec::ConsumedMessage& message, const core::StreamId& target) override;
  void forget(const delivery::Forgotten& inbox) override;

  ShardConfig config_;
  EnginePorts ports_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::optional<base::Error> lost_;
  Now now_;
  std::vector<journal::Completed> completed_;
  std::vector<core::FinishedAction> finished_;
  std::vector<core::ActivationAnswer> answers_;
};

}  // namespace sandglass::engine::shard
