// Child runs, parents and successors as stored. Internal to engine/run/codec.
#pragma once

#include "engine/run/codec/wire.h"

namespace sandglass::engine::run::codec {

template <>
struct Wire<RunContinued> {
  static constexpr auto kType = proto::RUN_CONTINUED;
  using Proto = proto::RunContinued;
  static void write(const RunContinued& event, Proto& out) {
    out.set_run(engine::codec::stream_bytes(event.run));
    put_ref(out, &Proto::mutable_input, event.input);
  }
  static Result<RunContinued> read(const Proto& in) {
    RunContinued event;
    SG_RUN_TAKE(event.run, engine::codec::stream_from(in.run()));
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    return event;
  }
};

template <>
struct Wire<RunAsked> {
  static constexpr auto kType = proto::RUN_ASKED;
  using Proto = proto::RunAsked;
  static void write(const RunAsked& event, Proto& out) {
    out.set_by(engine::codec::stream_bytes(event.by));
    out.set_correlation(event.correlation);
  }
  static Result<RunAsked> read(const Proto& in) {
    RunAsked event{.by = {}, .correlation = in.correlation()};
    SG_RUN_TAKE(event.by, engine::codec::stream_from(in.by()));
    return event;
  }
};

template <>
struct Wire<RunContinues> {
  static constexpr auto kType = proto::RUN_CONTINUES;
  using Proto = proto::RunRelated;
  static void write(const RunContinues& event, Proto& out) {
    out.set_run(engine::codec::stream_bytes(event.run));
  }
  static Result<RunContinues> read(const Proto& in) {
    RunContinues event;
    SG_RUN_TAKE(event.run, engine::codec::stream_from(in.run()));
    return event;
  }
};

template <>
struct Wire<RunPassedOn> {
  static constexpr auto kType = proto::RUN_PASSED_ON;
  using Proto = proto::RunRelated;
  static void write(const RunPassedOn& event, Proto& out) {
    out.set_run(engine::codec::stream_bytes(event.run));
    out.set_what(event.what);
  }
  static Result<RunPassedOn> read(const Proto& in) {
    RunPassedOn event{.what = in.what(), .run = {}};
    SG_RUN_TAKE(event.run, engine::codec::stream_from(in.run()));
    return event;
  }
};

template <>
struct Wire<ChildScheduled> {
  static constexpr auto kType = proto::RUN_CHILD_SCHEDULED;
  using Proto = proto::RunChildScheduled;
  static void write(const ChildScheduled& event, Proto& out) {
    out.set_path(event.path);
    out.set_run(engine::codec::stream_bytes(event.run));
    out.set_workflow(event.workflow);
    out.set_version(event.version);
    put_ref(out, &Proto::mutable_input, event.input);
    out.set_policy(number(event.policy));
  }
  static Result<ChildScheduled> read(const Proto& in) {
    ChildScheduled event{
        .path = in.path(), .run = {}, .workflow = in.workflow(), .version = in.version(), .input = {}};
    SG_RUN_TAKE(event.run, engine::codec::stream_from(in.run()));
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    SG_RUN_TAKE(event.policy, enum_from(in.policy(), ClosePolicy::abandon));
    return event;
  }
};
template <>
struct Wire<ChildCancelRequested>
    : TextWire<ChildCancelRequested, &ChildCancelRequested::path, proto::RUN_CHILD_CANCEL_REQUESTED> {};

template <>
struct Wire<ChildEnded> {
  static constexpr auto kType = proto::RUN_CHILD_ENDED;
  using Proto = proto::RunChildEnded;
  static void write(const ChildEnded& event, Proto& out) {
    out.set_path(event.path);
    out.set_how(number(event.how));
    out.set_code(number(event.code));
    out.set_side(number(event.side));
    out.set_run(engine::codec::stream_bytes(event.run));
    put_ref(out, &Proto::mutable_result, event.result);
    out.set_message(event.message);
  }
  static Result<ChildEnded> read(const Proto& in) {
    ChildEnded event{.path = in.path(), .run = {}, .result = {}, .message = in.message()};
    event.code = static_cast<base::Code>(in.code());
    SG_RUN_TAKE(event.how, enum_from(in.how(), core::RunEnd::refused));
    SG_RUN_TAKE(event.side, enum_from(in.side(), kLastSide));
    SG_RUN_TAKE(event.run, engine::codec::stream_from(in.run()));
    SG_RUN_TAKE(event.result, engine::codec::from_proto(in.result()));
    return event;
  }
};

}  // namespace sandglass::engine::run::codec
