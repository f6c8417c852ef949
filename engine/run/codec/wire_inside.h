// Lifecycle, steps, timers, signals and updates as stored. Internal to engine/run/codec.
#pragma once

#include "engine/run/codec/wire.h"

namespace sandglass::engine::run::codec {

template <>
struct Wire<RunStarted> {
  static constexpr auto kType = proto::RUN_STARTED;
  using Proto = proto::RunStarted;
  static void write(const RunStarted& event, Proto& out) {
    out.set_workflow(event.workflow);
    out.set_version(event.version);
    out.set_tenant(event.tenant);
    out.set_user(event.user);
    out.set_session(event.session);
    out.set_history_root(event.history_root);
    out.set_effect_root(event.effect_root);
    put_ref(out, &Proto::mutable_input, event.input);
  }
  static Result<RunStarted> read(const Proto& in) {
    RunStarted event{.workflow = in.workflow(),
                     .version = in.version(),
                     .tenant = in.tenant(),
                     .user = in.user(),
                     .session = in.session(),
                     .history_root = in.history_root(),
                     .effect_root = in.effect_root()};
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    return event;
  }
};
template <>
struct Wire<RunCompleted> : PayloadWire<RunCompleted, &RunCompleted::result, proto::RUN_COMPLETED> {};
template <>
struct Wire<RunCancelled> : PayloadWire<RunCancelled, &RunCancelled::details, proto::RUN_CANCELLED> {};
template <>
struct Wire<CancelRequested>
    : PayloadWire<CancelRequested, &CancelRequested::reason, proto::RUN_CANCEL_REQUESTED> {};
template <>
struct Wire<RunResumed> : TextWire<RunResumed, &RunResumed::version, proto::RUN_RESUMED> {};
template <>
struct Wire<PatchMarked> : TextWire<PatchMarked, &PatchMarked::id, proto::RUN_PATCH_MARKED> {};
template <>
struct Wire<ActivationCut> : NothingWire<ActivationCut, proto::RUN_ACTIVATION_CUT> {};
template <>
struct Wire<ActivationTaken> : NothingWire<ActivationTaken, proto::RUN_ACTIVATION_TAKEN> {};

template <>
struct Wire<RunFailed> {
  static constexpr auto kType = proto::RUN_FAILED;
  using Proto = proto::RunFailed;
  static void write(const RunFailed& event, Proto& out) {
    out.set_code(number(event.code));
    out.set_side(number(event.side));
    put_ref(out, &Proto::mutable_details, event.details);
  }
  static Result<RunFailed> read(const Proto& in) {
    RunFailed event{.code = static_cast<base::Code>(in.code())};
    SG_RUN_TAKE(event.side, enum_from(in.side(), kLastSide));
    SG_RUN_TAKE(event.details, engine::codec::from_proto(in.details()));
    return event;
  }
};

template <>
struct Wire<RunTerminated> {
  static constexpr auto kType = proto::RUN_TERMINATED;
  using Proto = proto::RunTerminated;
  static void write(const RunTerminated& event, Proto& out) {
    for (const std::string& path : event.abandoned) out.add_abandoned(path);
    put_ref(out, &Proto::mutable_reason, event.reason);
  }
  static Result<RunTerminated> read(const Proto& in) {
    RunTerminated event{.abandoned = {in.abandoned().begin(), in.abandoned().end()}};
    SG_RUN_TAKE(event.reason, engine::codec::from_proto(in.reason()));
    return event;
  }
};

template <>
struct Wire<RunStuck> {
  static constexpr auto kType = proto::RUN_STUCK;
  using Proto = proto::RunStuck;
  static void write(const RunStuck& event, Proto& out) {
    out.set_code(number(event.report.code));
    out.set_expected(event.report.expected);
    out.set_actual(event.report.actual);
    out.set_event_seq(event.report.event_seq);
    out.set_path(event.report.path);
    out.set_message(event.report.message);
  }
  static Result<RunStuck> read(const Proto& in) {
    return RunStuck{{.code = static_cast<base::Code>(in.code()),
                     .expected = in.expected(),
                     .actual = in.actual(),
                     .event_seq = in.event_seq(),
                     .path = in.path(),
                     .message = in.message()}};
  }
};

template <>
struct Wire<PhaseSet> {
  static constexpr auto kType = proto::RUN_PHASE_SET;
  using Proto = proto::RunPhaseSet;
  static void write(const PhaseSet& event, Proto& out) {
    out.set_path(event.path);
    out.set_phase(number(event.phase));
  }
  static Result<PhaseSet> read(const Proto& in) {
    PhaseSet event{.path = in.path()};
    SG_RUN_TAKE(event.phase, enum_from(in.phase(), Phase::done));
    return event;
  }
};

template <>
struct Wire<Checkpointed> {
  static constexpr auto kType = proto::RUN_CHECKPOINTED;
  using Proto = proto::RunCheckpointed;
  static void write(const Checkpointed& event, Proto& out) {
    out.set_generation(event.generation);
    out.set_schema_version(event.schema_version);
    out.set_workflow_version(event.workflow_version);
    put_ref(out, &Proto::mutable_state, event.state);
    for (const auto& signal : event.signals) {
      auto& carried = *out.add_signals();
      carried.set_number(signal.number);
      carried.set_name(signal.name);
      put_ref(carried, &Proto::Carried::mutable_payload, signal.payload);
    }
  }
  static Result<Checkpointed> read(const Proto& in) {
    Checkpointed event{.generation = in.generation(),
                       .schema_version = in.schema_version(),
                       .workflow_version = in.workflow_version()};
    SG_RUN_TAKE(event.state, engine::codec::from_proto(in.state()));
    for (const auto& carried : in.signals()) {
      Checkpointed::Carried signal{.number = carried.number(), .name = carried.name()};
      SG_RUN_TAKE(signal.payload, engine::codec::from_proto(carried.payload()));
      event.signals.push_back(std::move(signal));
    }
    return event;
  }
};

template <>
struct Wire<StepScheduled> {
  static constexpr auto kType = proto::RUN_STEP_SCHEDULED;
  using Proto = proto::RunStepScheduled;
  static void write(const StepScheduled& event, Proto& out) {
    out.set_path(event.path);
    out.set_activity(event.activity);
    put_ref(out, &Proto::mutable_input, event.input);
    engine::codec::to_proto(event.options.retry, *out.mutable_retry());
    out.set_start_to_close_ms(event.options.start_to_close_ms);
    out.set_schedule_to_close_ms(event.options.schedule_to_close_ms);
    out.set_schedule_to_start_ms(event.options.schedule_to_start_ms);
    out.set_heartbeat_ms(event.options.heartbeat_ms);
    out.set_queue(event.options.queue);
    out.set_priority(event.options.priority);
    for (const auto& type : event.options.non_retryable) out.add_non_retryable(type);
  }
  static Result<StepScheduled> read(const Proto& in) {
    StepScheduled event{.path = in.path(),
                        .activity = in.activity(),
                        .options = {.retry = engine::codec::from_proto(in.retry()),
                                    .start_to_close_ms = in.start_to_close_ms(),
                                    .schedule_to_close_ms = in.schedule_to_close_ms(),
                                    .schedule_to_start_ms = in.schedule_to_start_ms(),
                                    .heartbeat_ms = in.heartbeat_ms(),
                                    .queue = in.queue(),
                                    .priority = in.priority(),
                                    .non_retryable = {in.non_retryable().begin(), in.non_retryable().end()}}};
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    return event;
  }
};
template <>
struct Wire<StepCompleted> : AttemptWire<StepCompleted, proto::RUN_STEP_COMPLETED> {};
template <>
struct Wire<StepAttemptFailed> : AttemptWire<StepAttemptFailed, proto::RUN_STEP_ATTEMPT_FAILED> {};
template <>
struct Wire<StepRetried> : TextWire<StepRetried, &StepRetried::path, proto::RUN_STEP_RETRIED> {};
template <>
struct Wire<StepFailed> : AttemptWire<StepFailed, proto::RUN_STEP_FAILED> {};
template <>
struct Wire<StepCancelled> : TextWire<StepCancelled, &StepCancelled::path, proto::RUN_STEP_CANCELLED> {};

template <>
struct Wire<TimerStarted> {
  static constexpr auto kType = proto::RUN_TIMER_STARTED;
  using Proto = proto::RunTimerStarted;
  static void write(const TimerStarted& event, Proto& out) {
    out.set_path(event.path);
    out.set_due_ms(event.due_ms);
  }
  static Result<TimerStarted> read(const Proto& in) { return TimerStarted{in.path(), in.due_ms()}; }
};
template <>
struct Wire<TimerElapsed> : TextWire<TimerElapsed, &TimerElapsed::path, proto::RUN_TIMER_ELAPSED> {};
template <>
struct Wire<TimerCancelled> : TextWire<TimerCancelled, &TimerCancelled::path, proto::RUN_TIMER_CANCELLED> {};

template <>
struct Wire<SignalReceived> {
  static constexpr auto kType = proto::RUN_SIGNAL_RECEIVED;
  using Proto = proto::RunSignalReceived;
  static void write(const SignalReceived& event, Proto& out) {
    out.set_number(event.number);
    out.set_name(event.name);
    put_ref(out, &Proto::mutable_payload, event.payload);
  }
  static Result<SignalReceived> read(const Proto& in) {
    SignalReceived event{.number = in.number(), .name = in.name()};
    SG_RUN_TAKE(event.payload, engine::codec::from_proto(in.payload()));
    return event;
  }
};
template <>
struct Wire<SignalTaken> {
  static constexpr auto kType = proto::RUN_SIGNAL_TAKEN;
  using Proto = proto::RunSignalTaken;
  static void write(const SignalTaken& event, Proto& out) {
    out.set_path(event.path);
    out.set_number(event.number);
  }
  static Result<SignalTaken> read(const Proto& in) { return SignalTaken{in.path(), in.number()}; }
};

template <>
struct Wire<AttributesSet> {
  static constexpr auto kType = proto::RUN_ATTRIBUTES_SET;
  using Proto = proto::RunAttributesSet;
  static void write(const AttributesSet& event, Proto& out) {
    out.set_path(event.path);
    put_ref(out, &Proto::mutable_attributes, event.attributes);
  }
  static Result<AttributesSet> read(const Proto& in) {
    AttributesSet event{.path = in.path()};
    SG_RUN_TAKE(event.attributes, engine::codec::from_proto(in.attributes()));
    return event;
  }
};
template <>
struct Wire<UpdateAccepted> {
  static constexpr auto kType = proto::RUN_UPDATE_ACCEPTED;
  using Proto = proto::RunUpdateAccepted;
  static void write(const UpdateAccepted& event, Proto& out) {
    out.set_number(event.number);
    out.set_name(event.name);
    put_ref(out, &Proto::mutable_input, event.input);
  }
  static Result<UpdateAccepted> read(const Proto& in) {
    UpdateAccepted event{.number = in.number(), .name = in.name()};
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    return event;
  }
};
template <>
struct Wire<UpdateCompleted> {
  static constexpr auto kType = proto::RUN_UPDATE_COMPLETED;
  using Proto = proto::RunUpdateEnded;
  static void write(const UpdateCompleted& event, Proto& out) {
    out.set_number(event.number);
    out.set_code(number(event.code));
    put_ref(out, &Proto::mutable_result, event.result);
  }
  static Result<UpdateCompleted> read(const Proto& in) {
    UpdateCompleted event{.number = in.number(), .code = static_cast<base::Code>(in.code())};
    SG_RUN_TAKE(event.result, engine::codec::from_proto(in.result()));
    return event;
  }
};
template <>
struct Wire<UpdateAbandoned> {
  static constexpr auto kType = proto::RUN_UPDATE_ABANDONED;
  using Proto = proto::RunUpdateEnded;
  static void write(const UpdateAbandoned& event, Proto& out) { out.set_number(event.number); }
  static Result<UpdateAbandoned> read(const Proto& in) { return UpdateAbandoned{in.number()}; }
};

}  // namespace sandglass::engine::run::codec
