// State of a run: what is open, and what must be remembered. What is done is in the records (J9).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/decider.h"
#include "engine/run/types.h"

namespace sandglass::engine::run {

/// A step that is open: under way, or waiting for its next attempt (`retry_due_ms` set).
struct Step {
  std::string activity;
  core::PayloadRef input;
  StepOptions options;
  std::uint32_t attempt = 1;
  std::uint64_t counter = 0;  // record that started the attempt: part of its token
  std::int64_t scheduled_ms = 0;
  std::int64_t attempt_ms = 0;  // when the attempt was scheduled
  std::int64_t retry_due_ms = 0;
  core::PayloadRef progress;  // the last that an attempt told
  friend bool operator==(const Step&, const Step&) = default;
};

struct Operation {
  std::string tool;
  core::PayloadRef input;
  OperationOptions options;
  OperationStatus status = OperationStatus::waiting;
  std::uint32_t incarnation = 0;
  std::uint32_t attempt = 1;
  std::uint64_t counter = 0;         // record that started the action that is out
  std::uint64_t intended_epoch = 0;  // owner that intended the attempt
  std::int64_t intended_ms = 0;
  std::int64_t unknown_since_ms = 0;  // J16's waits count from here; 0: outcome not in doubt
  std::uint32_t probes_failed = 0;
  std::int64_t timer_due_ms = 0;
  bool cancel_requested = false;
  base::Code end_code = base::Code::ok;  // ending: why
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// What is wanted from the other side, for taking it back.
enum class ExchangeKind : std::uint8_t { other = 0, lease = 1, approval = 2 };

struct Exchange {
  core::StreamId target;
  ExchangeKind kind = ExchangeKind::other;
  std::uint32_t queue_position = 0;  // of a lease that waits; 0: not told
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

struct Lease {
  core::StreamId pool;
  std::string sandbox;
  std::uint64_t token = 0;
  bool returning = false;
  friend bool operator==(const Lease&, const Lease&) = default;
};

/// A run that this one has started and whose end has not come.
struct Child {
  core::StreamId run;
  std::string workflow;
  ClosePolicy policy = ClosePolicy::cancel;
  bool cancel_requested = false;
  std::int64_t started_ms = 0;
  friend bool operator==(const Child&, const Child&) = default;
};

struct UnreadSignal {
  std::string name;
  core::PayloadRef payload;
  friend bool operator==(const UnreadSignal&, const UnreadSignal&) = default;
};

struct State {
  RunStatus status = RunStatus::none;
  Phase phase = Phase::queued;
  std::string workflow, version, tenant, user, session;
  std::string history_root, effect_root;
  core::PayloadRef input;
  std::int64_t started_ms = 0;
  std::int64_t closed_ms = 0;

  bool cancel_requested = false;
  StuckReport stuck;  // while status is stuck
  std::int64_t stuck_since_ms = 0;
  base::Code end_code = base::Code::ok;
  core::FailureSide end_side = core::FailureSide::user;
  core::PayloadRef result;  // of a completed run; details of another end

  std::uint32_t generation = 0;   // grows with each checkpoint
  std::uint64_t restart_seq = 0;  // record of the last checkpoint; 0: none
  std::uint64_t commands = 0;     // workflow commands taken since the start
  bool owes_activation = false;   // workflow code has not (demonstrably) seen everything

  std::map<std::string, Step, std::less<>> steps;
  std::map<std::string, std::int64_t, std::less<>> timers;  // due_ms
  std::map<std::string, Operation, std::less<>> operations;
  std::map<std::string, core::ContentDigest, std::less<>>
      settled_operations;  // arguments; of this generation
  std::map<std::string, Exchange, std::less<>> exchanges;
  std::map<std::string, Lease, std::less<>> leases;
  std::map<std::uint64_t, UnreadSignal> signals;  // unread, by number
  std::uint64_t last_signal = 0;
  std::map<std::uint64_t, std::string> updates;  // accepted and not answered: the name, by number
  std::uint64_t last_update = 0;
  core::PayloadRef attributes;
  std::set<std::string, std::less<>> patched;

  std::map<std::string, Child, std::less<>> children;
  std::vector<core::RunAsker> askers;  // hear of the end; a run among them is the parent
  core::StreamId continues;            // the run that goes on as this one
  core::StreamId successor;            // of a continued run

  bool open() const { return status == RunStatus::running || status == RunStatus::stuck; }
  friend bool operator==(const State&, const State&) = default;
};

}  // namespace sandglass::engine::run
