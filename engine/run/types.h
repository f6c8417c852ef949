// The vocabulary of runs: what commands, events and state are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/codes.h"
#include "engine/core/action.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"
#include "engine/core/token.h"

namespace sandglass::engine::run {

/// A payload may have this many bytes inline; more goes to the blob store and is named by digest. A record
/// holds at least an input and one command of the output that it caused (J2).
inline constexpr std::size_t kMaxPayloadBytes = 240 * 1024;

/// Values are stored. `none` is a stream without its first event.
enum class RunStatus : std::uint8_t {
  none = 0,
  running = 1,
  stuck = 2,
  completed = 3,
  failed = 4,
  cancelled = 5,
  terminated = 6,
  continued = 7,  // it goes on as another run
};
/// Where a person sees the run (A3). Set by the workflow; stored.
enum class Phase : std::uint8_t {
  queued = 0,
  starting_sandbox = 1,
  restoring_workspace = 2,
  running = 3,
  waiting_for_approval = 4,
  uploading_artifacts = 5,
  releasing = 6,
  done = 7,
};

/// What becomes of a child when its parent ends, in whichever way. Stored.
enum class ClosePolicy : std::uint8_t {
  cancel = 0,     // it is asked to end, and may clean up
  terminate = 1,  // it ends at once
  abandon = 2,    // it goes on
};

std::string_view name_of(RunStatus status);
std::string_view name_of(ClosePolicy policy);
std::string_view name_of(Phase phase);
inline bool is_closed(RunStatus status) {
  return status >= RunStatus::completed;
}

struct StepOptions {
  core::RetryPolicy retry;
  std::int64_t start_to_close_ms = 600'000;  // of one attempt; 0: no limit
  std::int64_t schedule_to_close_ms = 0;     // of all attempts together; 0: no limit
  // Of steps that workers carry out, in processes of their own.
  std::int64_t schedule_to_start_ms = 0;  // how long an attempt may wait for a worker; 0: no limit
  std::int64_t heartbeat_ms = 0;          // an attempt that is silent for so long is given up; 0: no limit
  std::string queue;                      // whose workers; empty: those of the activity's name
  std::int32_t priority = 0;              // higher is served first, among the steps of a tenant
  /// Failures that are final, by the name of their code or by the activity's own name for them.
  std::vector<std::string> non_retryable;
  friend bool operator==(const StepOptions&, const StepOptions&) = default;
};

/// How an effect of unknown outcome is settled (O2). Stored.
enum class Recovery : std::uint8_t {
  ask = 0,     // a person says; never sent again by itself
  probe = 1,   // activity `probe` asks the outside
  resend = 2,  // the target de-duplicates by key
};

/// Where an open operation is. Values are stored.
enum class OperationStatus : std::uint8_t {
  waiting = 0,     // for a place: action `reserve`
  intended = 1,    // action `effect`
  backoff = 2,     // until timer_due_ms, then waiting
  probing = 3,     // action `start` of the probe
  probe_wait = 4,  // until timer_due_ms, then probing
  asking = 5,      // a person, who says what became of it
  ending = 6,      // ends in a turn of its own, by a timer that is due at once
};

struct OperationOptions {
  core::RetryPolicy retry{.max_attempts = 3};
  Recovery recovery = Recovery::ask;
  /// Activity that gets the operation's input and key and answers: done (with the result) · not_done with
  /// code effect_not_done (it did not happen) · anything else: the probe itself failed and is repeated.
  std::string probe;
  std::int64_t permit_ms = 10'000;           // start the effect only this long after the intent was submitted
  std::int64_t attempt_timeout_ms = 30'000;  // cut the attempt at this age
  std::int64_t settle_ms = 5'000;            // how long the target may take to show what it accepted
  std::string target;                        // shown in the operation log; clear, no secret
  std::string credential;                    // reference
  std::string approval;                      // path of the approval's exchange
  std::uint32_t level = 2;                   // of the call: who may say what became of it
  friend bool operator==(const OperationOptions&, const OperationOptions&) = default;
};

/// Why a run is stuck, in fields (J14). Names and paths only, never user content.
struct StuckReport {
  base::Code code = base::Code::internal;
  std::string expected;         // what history has
  std::string actual;           // what the code did instead
  std::uint64_t event_seq = 0;  // record of the event that does not fit; 0: none
  std::string path;             // step path
  std::string message;
  friend bool operator==(const StuckReport&, const StuckReport&) = default;
};

std::string_view name_of(Recovery recovery);
std::string_view name_of(OperationStatus status);

/// Key of an operation (J17), in hex: H(effect root, path, incarnation); the path has generation and ordinal.
std::string operation_key(std::string_view effect_root, std::string_view path, std::uint32_t incarnation);
/// Key of a step: stable over attempts and replays.
std::string step_key(const core::StreamId& stream, std::string_view path);

/// The run that is started as a child under `path`: after a reset the same one, after a fork another (J17).
core::StreamId child_id(std::string_view effect_root, std::string_view path);
/// The run that `run` goes on as.
core::StreamId successor_id(const core::StreamId& run);

/// Under this correlation a person is asked what became of an operation's attempt, and answers.
std::string question_path(std::string_view operation_path, std::uint32_t attempt);
/// An operation's probe is an action under this path.
std::string probe_path(std::string_view operation_path);

}  // namespace sandglass::engine::run
