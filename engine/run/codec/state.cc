// State snapshots: rebuildable from history, hence free to change with kStateVersion.
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <type_traits>

#include "engine/codec/snapshot.h"
#include "engine/run/codec/codec.h"

namespace sandglass::engine::run::codec {
namespace {

/// Members instead of cereal's serialize(): other codecs may write core's types in other ways.
template <class Archive>
class Io {
 public:
  explicit Io(Archive& archive) : archive_(archive) {}
  // io(value) instead of cereal's serialize(): found here alone, whatever other codecs do with core's
  // types.

  template <class Number>
    requires std::is_arithmetic_v<Number>
  void io(Number& number) {
    archive_(number);
  }
  void io(std::string& text) { archive_(text); }
  template <class Enum>
    requires std::is_enum_v<Enum>
  void io(Enum& value) {
    auto raw = static_cast<std::underlying_type_t<Enum>>(value);
    archive_(raw);
    value = static_cast<Enum>(raw);
  }
  void io(core::ContentDigest& digest) {
    for (auto& byte : digest.hash.bytes) archive_(byte);
  }
  template <class First, class Second, class... More>
  void io(First& first, Second& second, More&... more) {
    io(first);
    (io(second), ..., io(more));
  }
  void io(core::PayloadRef& ref) { io(ref.seq, ref.slot, ref.size, ref.digest); }
  void io(core::StreamId& stream) {
    io(stream.kind);
    for (auto& byte : stream.id) archive_(byte);
  }
  void io(core::RetryPolicy& policy) {
    io(policy.max_attempts, policy.initial_interval_ms, policy.max_interval_ms, policy.backoff,
       policy.jitter);
  }
  void io(StepOptions& options) {
    io(options.retry, options.start_to_close_ms, options.schedule_to_close_ms, options.schedule_to_start_ms,
       options.heartbeat_ms, options.queue, options.priority);
    archive_(options.non_retryable);
  }
  void io(OperationOptions& options) {
    io(options.retry, options.recovery, options.probe, options.permit_ms, options.attempt_timeout_ms,
       options.settle_ms, options.target, options.credential, options.approval, options.level);
  }
  void io(StuckReport& report) {
    io(report.code, report.expected, report.actual, report.event_seq, report.path, report.message);
  }
  void io(Step& step) {
    io(step.activity, step.input, step.options, step.attempt, step.counter, step.scheduled_ms,
       step.attempt_ms, step.retry_due_ms, step.progress);
  }
  void io(Operation& operation) {
    io(operation.tool, operation.input, operation.options, operation.status, operation.incarnation,
       operation.attempt, operation.counter, operation.intended_epoch, operation.intended_ms,
       operation.unknown_since_ms, operation.probes_failed, operation.timer_due_ms,
       operation.cancel_requested, operation.end_code);
  }
  void io(Exchange& exchange) { io(exchange.target, exchange.kind, exchange.queue_position); }
  void io(Lease& lease) { io(lease.pool, lease.sandbox, lease.token, lease.returning); }
  void io(Child& child) {
    io(child.run, child.workflow, child.policy, child.cancel_requested, child.started_ms);
  }
  void io(core::RunAsker& asker) { io(asker.stream, asker.correlation); }
  void io(std::vector<core::RunAsker>& askers) {
    std::uint64_t size = askers.size();
    archive_(size);
    if constexpr (Archive::is_loading::value) {
      askers.clear();
      for (std::uint64_t i = 0; i < size; ++i) io(askers.emplace_back());
    } else {
      for (core::RunAsker& asker : askers) io(asker);
    }
  }
  void io(UnreadSignal& signal) { io(signal.name, signal.payload); }

  template <class Map>
    requires requires { typename Map::mapped_type; }
  void io(Map& map) {
    std::uint64_t size = map.size();
    archive_(size);
    if constexpr (Archive::is_loading::value) {
      map.clear();
      for (std::uint64_t i = 0; i < size; ++i) {
        typename Map::key_type key{};
        io(key);
        io(map[key]);
      }
    } else {
      for (auto& [key, value] : map) {
        typename Map::key_type copy = key;
        io(copy);
        io(value);
      }
    }
  }
  void io(std::set<std::string, std::less<>>& set) {
    std::vector<std::string> items(set.begin(), set.end());
    archive_(items);
    if constexpr (Archive::is_loading::value) set = {items.begin(), items.end()};
  }

 private:
  Archive& archive_;
};

struct Saved {
  State state;

  template <class Archive>
  void serialize(Archive& archive) {
    State& s = state;
    Io io(archive);
    io.io(s.status, s.phase, s.workflow, s.version, s.tenant, s.user, s.session, s.history_root,
          s.effect_root, s.input, s.started_ms, s.closed_ms, s.cancel_requested, s.stuck, s.stuck_since_ms,
          s.end_code, s.end_side, s.result, s.generation, s.restart_seq, s.commands, s.owes_activation);
    io.io(s.steps, s.timers, s.operations, s.settled_operations, s.exchanges, s.leases, s.signals,
          s.last_signal, s.patched);
    io.io(s.updates, s.last_update, s.attributes);
    io.io(s.children, s.askers, s.continues, s.successor);
  }
};

}  // namespace

std::string RunCodec::encode_state(const State& state) {
  return engine::codec::save_snapshot(kStateVersion, Saved{state});
}

base::Result<State> RunCodec::decode_state(std::string_view bytes) {
  auto saved = engine::codec::load_snapshot<Saved>(kStateVersion, bytes);
  if (!saved) return std::unexpected(saved.error());
  return std::move(saved->state);
}

}  // namespace sandglass::engine::run::codec
