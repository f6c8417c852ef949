// What goes into a shard from outside, and what comes back. Answers are held until the decided head that they
// saw is durable (J5); when the ownership ends first they are `outcome_unknown` (J6).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/core/decider.h"
#include "engine/core/ports/activator.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::shard {

/// The time of one poll. The clocks are read once, by the caller.
struct Now {
  base::WallMs wall_ms = 0;  // the engine's time (base/steady_clock.h): records and timers are measured in it
  base::MonotonicNs monotonic_ns = 0;
  base::WallMs calendar_ms = 0;  // 0: the same as wall_ms

  base::WallMs calendar() const { return calendar_ms != 0 ? calendar_ms : wall_ms; }
};

struct Reply {
  core::StreamId stream;
  std::uint64_t head = 0;  // the record that answers: of this command, or of the request that it repeats
  core::Payload payload;   // what the decider replied; empty if nothing
  bool repeated = false;   // the request id was known: nothing was decided now (J19)
};
/// Called once, on the shard's thread, from inside poll(); it may submit more.
using ReplyFn = std::move_only_function<void(base::Result<Reply>)>;

struct CommandEnvelope {
  core::StreamId target;
  core::CommandPtr command;      // of the target kind's command type
  std::string request_id;        // empty: not de-duplicated
  base::Hash256 request_digest;  // of the whole request; the same id with another is request_conflict
  std::optional<std::uint64_t> expected_head;  // J8: only for commands computed from the whole state
  ReplyFn on_reply;                            // may be null
  /// Workflow code is asked before the command is decided, and nothing comes between: its refusal is the
  /// command's.
  std::optional<core::Question> consent = std::nullopt;
};

/// A stream as it is at its decided head. head 0: the stream has no record.
struct StreamRead {
  std::shared_ptr<const core::StreamState> state;
  std::uint64_t head = 0;
};
using ReadFn = std::move_only_function<void(base::Result<StreamRead>)>;

/// What workflow code says to a question: JSON.
using SaidFn = std::move_only_function<void(base::Result<std::string>)>;

/// Durable records of one stream, in order, at least one.
using RecordsFn = std::move_only_function<void(base::Result<std::vector<core::StoredRecord>>)>;
using FollowId = std::uint64_t;

struct ShardConfig {
  std::uint16_t partitions = 8;
  std::int64_t activation_wait_us =
      1000;  // J12: how long a batch keeps an idle journal waiting for its activations
  std::size_t max_batch_records = 512;
  std::size_t max_batch_bytes = 4 << 20;
  std::size_t max_batches_in_flight = 2;   // of one partition; the next collects meanwhile
  std::size_t max_resident = 20'000;       // streams with state in memory, per partition
  std::size_t max_live = 5'000;            // live coroutines, per partition
  std::size_t max_loads = 64;              // streams being read, per partition
  std::size_t max_waiting = 20'000;        // commands of callers in queues, per partition; above: overloaded
  std::int64_t timer_horizon_ms = 60'000;  // timers due within this are in memory
  std::size_t max_timers = 50'000;         // and at most about so many (E3)
  std::int64_t acknowledge_after_ms = 50;  // how long deliveries to other partitions wait for company
  bool evict_always = false;               // J32: forget every coroutine after each answer
};

/// What a shard has done; for metrics, benches and tests.
struct ShardCounters {
  std::uint64_t decided = 0;  // commands that were decided, refusals included
  std::uint64_t refused = 0;  // of callers (J20)
  std::uint64_t stale = 0;    // completions and timers that came too late
  std::uint64_t records = 0;
  std::uint64_t batches = 0;
  std::uint64_t activations = 0;
  std::uint64_t rebuilds = 0;
  std::uint64_t questions = 0;   // put to workflow code
  std::uint64_t late = 0;        // activations that missed their batch (J12)
  std::uint64_t cut = 0;         // records that end in the middle of a turn (J2)
  std::uint64_t repeated = 0;    // requests answered from the record
  std::uint64_t duplicates = 0;  // messages that had come before
  std::uint64_t loads = 0;
  std::uint64_t evictions = 0;
  std::uint64_t damaged = 0;
  std::uint64_t timers_fired = 0;

  ShardCounters& operator+=(const ShardCounters& other);
};

}  // namespace sandglass::engine::shard
