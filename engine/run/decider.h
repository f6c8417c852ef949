// The run decider: one durable execution of a workflow (core/decider.h has the contract). Pure.
//
//   command            → events
//   StartRun             RunStarted, activation
//   Signal               SignalReceived, activation
//   Cancel               CancelRequested, activation
//   Terminate            RunTerminated
//   Resume               RunResumed, activation                                  (of a stuck run)
//   ApplyActivation      an event for each command | RunStuck | ActivationCut | ActivationTaken
//   ActionFinished       StepCompleted, StepAttemptFailed, StepFailed; Operation…
//   ActivationFailed     RunStuck
//   ActionFinished       … | RunStuck, of a step whose code ended the process three times
//   MessageReceived      RunStarted + RunAsked, activation; CancelRequested, RunTerminated, SignalReceived of
//                        a parent or predecessor; ChildEnded, activation;
//                        ExchangeAnswered, ExchangeProgressed, LeaseRenewed, LeaseClosed, MessageIgnored,
//                        OperationDecided [+ OperationSettled, activation]
//   TimerFired           TimerElapsed, StepRetried, OperationRequeued, OperationProbeStarted,
//   OperationSettled
//
// A run that has gone on as another (RunContinued) passes signals, cancels, terminations and new askers on to
// it: RunPassedOn (decision 19).
//
// While a run is stuck everything but activations goes on: completions, timers, signals and messages are
// recorded and seen by the workflow once it is resumed.
#pragma once

#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/decider.h"
#include "engine/run/commands.h"
#include "engine/run/events.h"
#include "engine/run/state.h"

namespace sandglass::engine::run {

struct RunDecider {
  using State = run::State;
  using Event = run::Event;
  using Command = run::Command;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& out);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State& state, const core::DecideInput& input, std::vector<core::Action>& actions);
  static bool in_flight(const State& state);
  /// An activation's output with one command a part. Every prefix is legal: a rebuild emits the rest again
  /// (J2).
  static std::vector<Command> split(const Command& command);
  /// The workflow must be activated after recovery even if nothing else happens.
  static bool owes_activation(const State& state);
};

}  // namespace sandglass::engine::run
