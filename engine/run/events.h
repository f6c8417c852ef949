// Events of a run. Plain facts in the clear: names, paths, times, codes; user content is in slots, named by
// PayloadRef. Events marked (w) answer one WorkflowCommand each; those marked (i) are what workflow code
// sees. codec/ has the stored numbers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/messages/message.h"
#include "engine/core/one_of.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"
#include "engine/run/types.h"

namespace sandglass::engine::run {

// ---- lifecycle

struct RunStarted {  // (i)
  std::string workflow, version, tenant, user, session;
  std::string history_root, effect_root;
  core::PayloadRef input;
  friend bool operator==(const RunStarted&, const RunStarted&) = default;
};
struct RunCompleted {  // (w)
  core::PayloadRef result;
  friend bool operator==(const RunCompleted&, const RunCompleted&) = default;
};
struct RunFailed {  // (w)
  base::Code code = base::Code::internal;
  core::FailureSide side = core::FailureSide::user;
  core::PayloadRef details;
  friend bool operator==(const RunFailed&, const RunFailed&) = default;
};
struct RunCancelled {  // (w)
  core::PayloadRef details;
  friend bool operator==(const RunCancelled&, const RunCancelled&) = default;
};
struct RunTerminated {
  std::vector<std::string> abandoned;  // paths of operations whose outcome was not known
  core::PayloadRef reason;
  friend bool operator==(const RunTerminated&, const RunTerminated&) = default;
};
/// It goes on as another run; whoever waits for its end waits for that one's.
struct RunContinued {  // (w)
  core::StreamId run;
  core::PayloadRef input;
  friend bool operator==(const RunContinued&, const RunContinued&) = default;
};
/// Who asked for the run and hears of its end; a run among them is its parent.
struct RunAsked {
  core::StreamId by;
  std::string correlation;
  friend bool operator==(const RunAsked&, const RunAsked&) = default;
};
/// The run that goes on as this one.
struct RunContinues {
  core::StreamId run;
  friend bool operator==(const RunContinues&, const RunContinues&) = default;
};
/// What came for a run that has been continued went to the one that it goes on as.
struct RunPassedOn {
  std::string what;  // "signal approve", "cancel", …
  core::StreamId run;
  friend bool operator==(const RunPassedOn&, const RunPassedOn&) = default;
};
struct RunStuck {
  StuckReport report;
  friend bool operator==(const RunStuck&, const RunStuck&) = default;
};
struct RunResumed {
  std::string version;  // empty: as before
  friend bool operator==(const RunResumed&, const RunResumed&) = default;
};
struct CancelRequested {  // (i)
  core::PayloadRef reason;
  friend bool operator==(const CancelRequested&, const CancelRequested&) = default;
};
struct PhaseSet {  // (w)
  std::string path;
  Phase phase = Phase::running;
  friend bool operator==(const PhaseSet&, const PhaseSet&) = default;
};
struct PatchMarked {  // (w)
  std::string id;
  friend bool operator==(const PatchMarked&, const PatchMarked&) = default;
};
/// The rest of an activation's output follows in another part (J2). Should it never come, the run still owes
/// it.
struct ActivationCut {
  friend bool operator==(const ActivationCut&, const ActivationCut&) = default;
};
/// The workflow saw everything and has nothing to add: the run is parked.
struct ActivationTaken {
  friend bool operator==(const ActivationTaken&, const ActivationTaken&) = default;
};
struct Checkpointed {  // (w)
  struct Carried {
    std::uint64_t number = 0;
    std::string name;
    core::PayloadRef payload;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  std::uint32_t generation = 0;  // the one that it opens
  std::uint32_t schema_version = 1;
  std::string workflow_version;
  core::PayloadRef state;
  std::vector<Carried> signals;  // unread then
  friend bool operator==(const Checkpointed&, const Checkpointed&) = default;
};

// ---- steps

struct StepScheduled {  // (w)
  std::string path, activity;
  core::PayloadRef input;
  StepOptions options;
  friend bool operator==(const StepScheduled&, const StepScheduled&) = default;
};
struct StepCompleted {  // (i)
  std::string path;
  std::uint32_t attempt = 1;
  core::PayloadRef result;
  friend bool operator==(const StepCompleted&, const StepCompleted&) = default;
};
struct StepAttemptFailed {
  std::string path;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::step_failed;
  core::FailureSide side = core::FailureSide::user;
  std::int64_t next_ms = 0;  // wall time of the next attempt
  core::PayloadRef details;
  core::PayloadRef progress;  // what it last told of its progress: the next attempt gets it
  friend bool operator==(const StepAttemptFailed&, const StepAttemptFailed&) = default;
};
struct StepRetried {
  std::string path;
  friend bool operator==(const StepRetried&, const StepRetried&) = default;
};
struct StepFailed {  // (i)
  std::string path;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::step_failed;
  core::FailureSide side = core::FailureSide::user;
  core::PayloadRef message;  // text
  core::PayloadRef details;  // what the activity added
  friend bool operator==(const StepFailed&, const StepFailed&) = default;
};
struct StepCancelled {  // (w)
  std::string path;
  friend bool operator==(const StepCancelled&, const StepCancelled&) = default;
};

// ---- timers

struct TimerStarted {  // (w)
  std::string path;
  std::int64_t due_ms = 0;
  friend bool operator==(const TimerStarted&, const TimerStarted&) = default;
};
struct TimerElapsed {  // (i)
  std::string path;
  friend bool operator==(const TimerElapsed&, const TimerElapsed&) = default;
};
struct TimerCancelled {  // (w)
  std::string path;
  friend bool operator==(const TimerCancelled&, const TimerCancelled&) = default;
};

// ---- signals

struct SignalReceived {      // (i)
  std::uint64_t number = 0;  // of this run, from 1
  std::string name;
  core::PayloadRef payload;
  friend bool operator==(const SignalReceived&, const SignalReceived&) = default;
};
struct SignalTaken {  // (w)
  std::string path;
  std::uint64_t number = 0;
  friend bool operator==(const SignalTaken&, const SignalTaken&) = default;
};

/// All that the workflow says of its run now; what it said before holds no more.
struct AttributesSet {  // (w)
  std::string path;
  core::PayloadRef attributes;  // run/attributes.h
  friend bool operator==(const AttributesSet&, const AttributesSet&) = default;
};

// ---- updates

/// The workflow's code has agreed to take it.
struct UpdateAccepted {      // (i)
  std::uint64_t number = 0;  // of this run, from 1
  std::string name;
  core::PayloadRef input;
  friend bool operator==(const UpdateAccepted&, const UpdateAccepted&) = default;
};
struct UpdateCompleted {  // (w)
  std::uint64_t number = 0;
  base::Code code = base::Code::ok;
  core::PayloadRef result;  // of a failure JSON {"message": …}
  friend bool operator==(const UpdateCompleted&, const UpdateCompleted&) = default;
};
/// The run has ended without an answer to it.
struct UpdateAbandoned {
  std::uint64_t number = 0;
  friend bool operator==(const UpdateAbandoned&, const UpdateAbandoned&) = default;
};

// ---- talking to other streams

struct ExchangeOpened {  // (w)
  std::string path;
  core::StreamId target;
  core::MessageBody body;
  core::ContentDigest payload;  // the bytes go with the message, which stands in the same record
  friend bool operator==(const ExchangeOpened&, const ExchangeOpened&) = default;
};
/// An answer that is shown but ends nothing (LeaseQueued).
struct ExchangeProgressed {
  std::string path;
  core::MessageBody body;
  friend bool operator==(const ExchangeProgressed&, const ExchangeProgressed&) = default;
};
struct ExchangeAnswered {  // (i)
  std::string path;
  core::StreamId source;
  core::MessageBody body;
  core::PayloadRef payload;
  friend bool operator==(const ExchangeAnswered&, const ExchangeAnswered&) = default;
};
struct ExchangeWithdrawn {  // (w)
  std::string path;
  friend bool operator==(const ExchangeWithdrawn&, const ExchangeWithdrawn&) = default;
};
struct MessageSent {  // (w)
  std::string path;
  core::StreamId target;
  core::ContentDigest payload;
  friend bool operator==(const MessageSent&, const MessageSent&) = default;
};
/// A message that nothing here waits for (any more); a lease granted too late goes straight back.
struct MessageIgnored {
  std::string correlation;
  core::StreamId source;
  friend bool operator==(const MessageIgnored&, const MessageIgnored&) = default;
};
struct LeaseReleased {  // (w)
  std::string path;
  std::string lease;
  friend bool operator==(const LeaseReleased&, const LeaseReleased&) = default;
};
/// The pool asked whether the lease is still needed; `kept` tells what was answered.
struct LeaseRenewed {
  std::string lease;
  bool kept = true;
  friend bool operator==(const LeaseRenewed&, const LeaseRenewed&) = default;
};
struct LeaseClosed {  // (i)
  std::string lease;
  base::Code code = base::Code::ok;
  friend bool operator==(const LeaseClosed&, const LeaseClosed&) = default;
};

// ---- child runs

struct ChildScheduled {  // (w)
  std::string path;
  core::StreamId run;
  std::string workflow, version;
  core::PayloadRef input;
  ClosePolicy policy = ClosePolicy::cancel;
  friend bool operator==(const ChildScheduled&, const ChildScheduled&) = default;
};
struct ChildCancelRequested {  // (w)
  std::string path;
  friend bool operator==(const ChildCancelRequested&, const ChildCancelRequested&) = default;
};
struct ChildEnded {  // (i)
  std::string path;
  core::RunEnd how = core::RunEnd::completed;
  base::Code code = base::Code::ok;
  core::FailureSide side = core::FailureSide::user;
  core::StreamId run;  // the last one, if it went on as others
  core::PayloadRef result;
  std::string message;  // refused: why
  friend bool operator==(const ChildEnded&, const ChildEnded&) = default;
};

// ---- operations

struct OperationScheduled {  // (w)
  std::string path, tool;
  core::PayloadRef input;
  OperationOptions options;
  bool conflict = false;  // the key was used with other arguments: nothing is sent
  friend bool operator==(const OperationScheduled&, const OperationScheduled&) = default;
};
/// Durable before the effect may start. The key is in the clear: it is a hash.
struct OperationIntended {
  std::string path;
  std::uint32_t attempt = 1;
  std::string key;
  friend bool operator==(const OperationIntended&, const OperationIntended&) = default;
};
/// Certainly not done, and to be tried again at `next_ms`.
struct OperationAttemptFailed {
  std::string path;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::effect_not_done;
  core::FailureSide side = core::FailureSide::user;
  std::int64_t next_ms = 0;
  core::PayloadRef message;
  friend bool operator==(const OperationAttemptFailed&, const OperationAttemptFailed&) = default;
};
/// The wait of a failed or unknown attempt is over: a place for the next one is asked for.
struct OperationRequeued {
  std::string path;
  friend bool operator==(const OperationRequeued&, const OperationRequeued&) = default;
};
struct OperationUnknown {
  std::string path;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::operation_unknown;
  Recovery then = Recovery::ask;  // what happens now; `ask` also where the declared recovery is used up
  std::int64_t next_ms = 0;       // resend: wall time
  core::PayloadRef message;
  friend bool operator==(const OperationUnknown&, const OperationUnknown&) = default;
};
/// A probe that settled nothing yet: "not done" before it can be believed, or a probe that failed.
struct OperationProbed {
  std::string path;
  base::Code code = base::Code::ok;
  bool failed = false;
  std::int64_t next_ms = 0;  // 0: given up, an operator is asked
  friend bool operator==(const OperationProbed&, const OperationProbed&) = default;
};
struct OperationProbeStarted {
  std::string path;
  friend bool operator==(const OperationProbeStarted&, const OperationProbeStarted&) = default;
};
struct OperationDecided {
  std::string path;
  core::OutcomeVerdict verdict = core::OutcomeVerdict::not_done;
  std::string by;
  friend bool operator==(const OperationDecided&, const OperationDecided&) = default;
};
struct OperationCancelRequested {  // (w)
  std::string path;
  friend bool operator==(const OperationCancelRequested&, const OperationCancelRequested&) = default;
};
struct OperationSettled {  // (i)
  std::string path;
  core::Outcome outcome = core::Outcome::done;
  base::Code code = base::Code::ok;
  core::FailureSide side = core::FailureSide::user;
  core::PayloadRef result;
  core::PayloadRef message;
  friend bool operator==(const OperationSettled&, const OperationSettled&) = default;
};

using AnyEvent =
    std::variant<RunStarted, RunCompleted, RunFailed, RunCancelled, RunTerminated, RunContinued, RunAsked,
                 RunContinues, RunPassedOn, RunStuck, RunResumed, CancelRequested, PhaseSet, PatchMarked,
                 ActivationCut, ActivationTaken, Checkpointed, StepScheduled, StepCompleted,
                 StepAttemptFailed, StepRetried, StepFailed, StepCancelled, TimerStarted, TimerElapsed,
                 TimerCancelled, SignalReceived, SignalTaken, UpdateAccepted, UpdateCompleted,
                 UpdateAbandoned, AttributesSet, ExchangeOpened, ExchangeProgressed, ExchangeAnswered,
                 ExchangeWithdrawn, MessageSent, MessageIgnored, LeaseReleased, LeaseRenewed, LeaseClosed,
                 ChildScheduled, ChildCancelRequested, ChildEnded, OperationScheduled, OperationIntended,
                 OperationAttemptFailed, OperationRequeued, OperationUnknown, OperationProbed,
                 OperationProbeStarted, OperationDecided, OperationCancelRequested, OperationSettled>;
using Event = core::OneOf<AnyEvent>;

}  // namespace sandglass::engine::run

extern template class sandglass::engine::core::OneOf<sandglass::engine::run::AnyEvent>;
