#include "engine/shard/envelope.h"

namespace sandglass::engine::shard {

ShardCounters& ShardCounters::operator+=(const ShardCounters& other) {
  decided += other.decided;
  refused += other.refused;
  stale += other.stale;
  records += other.records;
  batches += other.batches;
  activations += other.activations;
  rebuilds += other.rebuilds;
  questions += other.questions;
  late += other.late;
  cut += other.cut;
  repeated += other.repeated;
  duplicates += other.duplicates;
  loads += other.loads;
  evictions += other.evictions;
  damaged += other.damaged;
  timers_fired += other.timers_fired;
  return *this;
}

}  // namespace sandglass::engine::shard
