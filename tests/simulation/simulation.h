// The whole engine core in one thread under one seed (J31, J32): virtual time, a disk that loses what was not
// synced, journals whose outcome may be unknown, activities that answer late or twice, callers that repeat
// what they got no answer to, and crashes at any moment. Everything that happens follows from SimOptions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sandglass::tests::simulation {

/// Bugs that a simulation must find.
enum class Plant : std::uint8_t {
  none,
  reply_before_sync,     // the journal says "durable" before it is
  effect_before_intent,  // work starts before the record that asks for it is durable
  timer_lost,            // a due timer is dropped from the index scan
  timer_early,           // a timer is due before its time (runs only)
  message_lost,          // a message is not found again after a crash
  message_taken_twice,   // a stream forgets what it has got
  call_applied_twice,    // a stream forgets what it has answered
  run_forgotten,         // a run in flight is not found again after a crash
  row_not_written,       // a derived row is missing in a batch
  record_altered,        // a record's bytes are not those that were hashed
  key_of_attempt,        // an operation's key is another one at each attempt (runs only)
  lease_granted_twice,   // two admission streams grant the last place both (runs only)
  not_done_too_early,    // "not done" is believed while an old attempt may still take effect (runs only)
  clock_not_steadied,    // the engine's time is the machine's wall clock, which somebody sets
};

struct SimOptions {
  std::uint64_t seed = 1;
  bool crashes = true;
  bool disorder = true;       // late and double answers, late activations
  bool evict_always = false;  // J32
  bool clock_steps = true;    // with disorder: somebody sets the wall clock, by up to two hours either way
  Plant plant = Plant::none;
};

struct SimResult {
  std::vector<std::string> violations;  // empty: all is well
  /// Stream → its events in order, as "type:text"; and what it received by source. For comparing runs.
  std::map<std::string, std::vector<std::string>> histories;
  std::string dump;  // all records, if something was violated
  std::uint64_t polls = 0;
  std::uint64_t crashes = 0;
  std::uint64_t records = 0;
  std::uint64_t rebuilds = 0;
  std::uint64_t late = 0;
};

/// Streams of the test kind: every rule of the shard, with workflow code that is a function of history.
SimResult simulate_streams(const SimOptions& options);
/// Runs of random workflows, as coroutines, with operations outside.
SimResult simulate_runs(const SimOptions& options);
/// The main job: examples/fix-failing-test with real deciders, workflow, gateway and activities.
SimResult simulate_main_job(const SimOptions& options);

}  // namespace sandglass::tests::simulation
