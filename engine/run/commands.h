// Commands of the run decider. WorkflowCommands are what workflow code asks for; they come in one
// ApplyActivation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/decider.h"
#include "engine/core/messages/message.h"
#include "engine/core/one_of.h"
#include "engine/core/payload.h"
#include "engine/run/types.h"

namespace sandglass::engine::run {

// From the API. All are legal in every state and have a defined outcome (FR-61): run_closed once the run has
// ended, not_found before it began, ok without effect where there is nothing left to do.

/// Starting again with the same workflow and input digest attaches; anything else is run_exists (FR-9,
/// FR-16).
struct StartRun {
  std::string workflow;
  std::string version;
  std::string tenant;
  std::string user;
  std::string session;
  core::Payload input;       // JSON
  std::string history_root;  // empty: this run's id (J17)
  std::string effect_root;   // empty: this run's id
};
struct Signal {
  std::string name;
  core::Payload payload;
};
/// Workflow code has agreed to it (core::Question, consent) at this very state.
struct Update {
  std::string name;
  core::Payload input;
};
/// The workflow is told and may clean up.
struct Cancel {
  std::string reason;
};
/// The run ends now, without its workflow.
struct Terminate {
  std::string reason;
};
/// A stuck run goes on, because its code was repaired. `version`: if set, the run moves to that version.
struct Resume {
  std::string version;
};

// From workflow code. Each gives exactly one event (State::commands counts them), found again by kind and
// path.

struct ScheduleStep {
  std::string path;
  std::string activity;
  core::Payload input;
  StepOptions options;
};
struct CancelStep {
  std::string path;
};
struct ScheduleOperation {
  std::string path;
  std::string tool;
  core::Payload input;
  OperationOptions options;
};
/// Ends an operation that is not intended yet; one that is goes on to its outcome.
struct CancelOperation {
  std::string path;
};
struct StartTimer {
  std::string path;
  std::int64_t due_ms = 0;
};
struct CancelTimer {
  std::string path;
};
struct TakeSignal {
  std::string path;
  std::uint64_t number = 0;
};
/// Asks another stream; the first answer under `path` as correlation resumes the workflow. LeaseGranted makes
/// the run the holder of a lease under this path.
struct OpenExchange {
  std::string path;
  core::StreamId target;
  core::MessageBody body;
  core::Payload payload;
};
struct WithdrawExchange {
  std::string path;
};
struct SendMessage {
  std::string path;
  core::StreamId target;
  core::MessageBody body;
  core::Payload payload;
};
/// Gives back the lease that was granted under path `lease`; LeaseClosed tells when it is gone.
struct ReleaseLease {
  std::string path;
  std::string lease;
};
/// Starts another run, whose id follows from effect root and path, and waits for its end.
struct StartChild {
  std::string path;
  std::string workflow, version;
  core::Payload input;
  ClosePolicy policy = ClosePolicy::cancel;
};
/// The child is cancelled; its end still comes.
struct CancelChild {
  std::string path;
};
struct SetPhase {
  std::string path;
  Phase phase = Phase::running;
};
struct MarkPatched {
  std::string id;
};
/// A signal that nobody has waited for yet, stored again beside the state so that a rebuild needs nothing
/// older.
struct CarriedSignal {
  std::uint64_t number = 0;
  std::string name;
  core::Payload payload;
};
struct Checkpoint {
  core::Payload state;  // Encoding::cereal
  std::uint32_t schema_version = 1;
  std::vector<CarriedSignal> signals;
};
struct SetAttributes {
  std::string path;
  core::Payload attributes;  // run/attributes.h
};
struct CompleteUpdate {
  std::uint64_t number = 0;
  base::Code code = base::Code::ok;
  core::Payload result;  // of a failure JSON {"message": …}
};
struct CompleteRun {
  core::Payload result;
};
/// After a cancel request, code `cancelled` ends the run as cancelled.
struct FailRun {
  base::Code code = base::Code::internal;
  core::FailureSide side = core::FailureSide::user;
  core::Payload details;  // JSON {"message": …}
};

/// Ends this run and starts another one that goes on with `input` and all unread signals, which are
/// `signals`.
struct ContinueAsNew {
  std::string version;
  core::Payload input;
  std::vector<CarriedSignal> signals;
};

using AnyWorkflowCommand =
    std::variant<ScheduleStep, CancelStep, ScheduleOperation, CancelOperation, StartTimer, CancelTimer,
                 TakeSignal, OpenExchange, WithdrawExchange, SendMessage, ReleaseLease, StartChild,
                 CancelChild, SetPhase, MarkPatched, Checkpoint, SetAttributes, CompleteUpdate, CompleteRun,
                 FailRun, ContinueAsNew>;
using WorkflowCommand = core::OneOf<AnyWorkflowCommand>;

/// An activation's output; RunDecider::split() cuts it where it does not fit into one record.
struct ApplyActivation {
  std::vector<WorkflowCommand> commands;
  std::optional<StuckReport> stuck;  // then commands are ignored
  bool more = false;                 // a part, and not the last one
};

using AnyCommand =
    std::variant<StartRun, Signal, Update, Cancel, Terminate, Resume, ApplyActivation, core::ActionFinished,
                 core::MessageReceived, core::TimerFired, core::ActivationFailed>;
using Command = core::OneOf<AnyCommand>;

}  // namespace sandglass::engine::run

extern template class sandglass::engine::core::OneOf<sandglass::engine::run::AnyWorkflowCommand>;
extern template class sandglass::engine::core::OneOf<sandglass::engine::run::AnyCommand>;
