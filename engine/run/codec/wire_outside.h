// Exchanges, leases and operations as stored. Internal to engine/run/codec.
#pragma once

#include "engine/codec/messages.h"
#include "engine/run/codec/wire.h"

namespace sandglass::engine::run::codec {

/// A message body inside an event, in the same form as in a record's header.
inline void put_body(proto::RunExchange& out, const core::MessageBody& body) {
  core::Message message;
  message.body = body;
  engine::codec::OutMessage stored = engine::codec::encode_message(message, std::nullopt);
  out.set_body_type(stored.type);
  out.set_body_version(stored.version);
  out.set_body(std::move(stored.body));
}
inline Result<core::MessageBody> body_from(const proto::RunExchange& in) {
  engine::codec::TurnHeader header;
  header.messages.push_back({.type = in.body_type(), .version = in.body_version(), .body = in.body()});
  auto message = engine::codec::decode_message(header, 0, {});
  if (!message) return std::unexpected(message.error());
  return std::move(message->body);
}

template <>
struct Wire<ExchangeOpened> {
  static constexpr auto kType = proto::RUN_EXCHANGE_OPENED;
  using Proto = proto::RunExchange;
  static void write(const ExchangeOpened& event, Proto& out) {
    out.set_path(event.path);
    out.set_peer(engine::codec::stream_bytes(event.target));
    put_body(out, event.body);
    out.set_payload_digest(engine::codec::hash_bytes(event.payload.hash));
  }
  static Result<ExchangeOpened> read(const Proto& in) {
    ExchangeOpened event{.path = in.path()};
    SG_RUN_TAKE(event.target, engine::codec::stream_from(in.peer()));
    SG_RUN_TAKE(event.body, body_from(in));
    SG_RUN_TAKE(event.payload.hash, engine::codec::hash_from(in.payload_digest()));
    return event;
  }
};
template <>
struct Wire<ExchangeProgressed> {
  static constexpr auto kType = proto::RUN_EXCHANGE_PROGRESSED;
  using Proto = proto::RunExchange;
  static void write(const ExchangeProgressed& event, Proto& out) {
    out.set_path(event.path);
    put_body(out, event.body);
  }
  static Result<ExchangeProgressed> read(const Proto& in) {
    ExchangeProgressed event{.path = in.path()};
    SG_RUN_TAKE(event.body, body_from(in));
    return event;
  }
};
template <>
struct Wire<ExchangeAnswered> {
  static constexpr auto kType = proto::RUN_EXCHANGE_ANSWERED;
  using Proto = proto::RunExchange;
  static void write(const ExchangeAnswered& event, Proto& out) {
    out.set_path(event.path);
    out.set_peer(engine::codec::stream_bytes(event.source));
    put_body(out, event.body);
    put_ref(out, &Proto::mutable_payload, event.payload);
  }
  static Result<ExchangeAnswered> read(const Proto& in) {
    ExchangeAnswered event{.path = in.path()};
    SG_RUN_TAKE(event.source, engine::codec::stream_from(in.peer()));
    SG_RUN_TAKE(event.body, body_from(in));
    SG_RUN_TAKE(event.payload, engine::codec::from_proto(in.payload()));
    return event;
  }
};
template <>
struct Wire<ExchangeWithdrawn>
    : TextWire<ExchangeWithdrawn, &ExchangeWithdrawn::path, proto::RUN_EXCHANGE_WITHDRAWN> {};

template <>
struct Wire<MessageSent> {
  static constexpr auto kType = proto::RUN_MESSAGE_SENT;
  using Proto = proto::RunMessageSent;
  static void write(const MessageSent& event, Proto& out) {
    out.set_path(event.path);
    out.set_target(engine::codec::stream_bytes(event.target));
    out.set_payload_digest(engine::codec::hash_bytes(event.payload.hash));
  }
  static Result<MessageSent> read(const Proto& in) {
    MessageSent event{.path = in.path()};
    SG_RUN_TAKE(event.target, engine::codec::stream_from(in.target()));
    SG_RUN_TAKE(event.payload.hash, engine::codec::hash_from(in.payload_digest()));
    return event;
  }
};
template <>
struct Wire<MessageIgnored> {
  static constexpr auto kType = proto::RUN_MESSAGE_IGNORED;
  using Proto = proto::RunMessageIgnored;
  static void write(const MessageIgnored& event, Proto& out) {
    out.set_correlation(event.correlation);
    out.set_source(engine::codec::stream_bytes(event.source));
  }
  static Result<MessageIgnored> read(const Proto& in) {
    MessageIgnored event{.correlation = in.correlation()};
    SG_RUN_TAKE(event.source, engine::codec::stream_from(in.source()));
    return event;
  }
};

template <>
struct Wire<LeaseReleased> {
  static constexpr auto kType = proto::RUN_LEASE_RELEASED;
  using Proto = proto::RunLeaseReleased;
  static void write(const LeaseReleased& event, Proto& out) {
    out.set_path(event.path);
    out.set_lease(event.lease);
  }
  static Result<LeaseReleased> read(const Proto& in) { return LeaseReleased{in.path(), in.lease()}; }
};
template <>
struct Wire<LeaseRenewed> {
  static constexpr auto kType = proto::RUN_LEASE_RENEWED;
  using Proto = proto::RunLeaseRenewed;
  static void write(const LeaseRenewed& event, Proto& out) {
    out.set_lease(event.lease);
    out.set_kept(event.kept);
  }
  static Result<LeaseRenewed> read(const Proto& in) { return LeaseRenewed{in.lease(), in.kept()}; }
};
template <>
struct Wire<LeaseClosed> {
  static constexpr auto kType = proto::RUN_LEASE_CLOSED;
  using Proto = proto::RunLeaseClosed;
  static void write(const LeaseClosed& event, Proto& out) {
    out.set_lease(event.lease);
    out.set_code(number(event.code));
  }
  static Result<LeaseClosed> read(const Proto& in) {
    return LeaseClosed{in.lease(), static_cast<base::Code>(in.code())};
  }
};

template <>
struct Wire<OperationScheduled> {
  static constexpr auto kType = proto::RUN_OPERATION_SCHEDULED;
  using Proto = proto::RunOperationScheduled;
  static void write(const OperationScheduled& event, Proto& out) {
    const OperationOptions& options = event.options;
    out.set_path(event.path);
    out.set_tool(event.tool);
    put_ref(out, &Proto::mutable_input, event.input);
    engine::codec::to_proto(options.retry, *out.mutable_retry());
    out.set_recovery(number(options.recovery));
    out.set_probe(options.probe);
    out.set_permit_ms(options.permit_ms);
    out.set_attempt_timeout_ms(options.attempt_timeout_ms);
    out.set_settle_ms(options.settle_ms);
    out.set_target(options.target);
    out.set_credential(options.credential);
    out.set_approval(options.approval);
    out.set_level(options.level);
    out.set_conflict(event.conflict);
  }
  static Result<OperationScheduled> read(const Proto& in) {
    OperationScheduled event{.path = in.path(), .tool = in.tool(), .conflict = in.conflict()};
    OperationOptions& options = event.options;
    SG_RUN_TAKE(event.input, engine::codec::from_proto(in.input()));
    options.retry = engine::codec::from_proto(in.retry());
    SG_RUN_TAKE(options.recovery, enum_from(in.recovery(), Recovery::resend));
    options.probe = in.probe();
    options.permit_ms = in.permit_ms();
    options.attempt_timeout_ms = in.attempt_timeout_ms();
    options.settle_ms = in.settle_ms();
    options.target = in.target();
    options.credential = in.credential();
    options.approval = in.approval();
    options.level = in.level();
    return event;
  }
};
template <>
struct Wire<OperationIntended> {
  static constexpr auto kType = proto::RUN_OPERATION_INTENDED;
  using Proto = proto::RunOperationIntended;
  static void write(const OperationIntended& event, Proto& out) {
    out.set_path(event.path);
    out.set_attempt(event.attempt);
    out.set_key(event.key);
  }
  static Result<OperationIntended> read(const Proto& in) {
    return OperationIntended{in.path(), in.attempt(), in.key()};
  }
};
template <>
struct Wire<OperationAttemptFailed>
    : AttemptWire<OperationAttemptFailed, proto::RUN_OPERATION_ATTEMPT_FAILED> {};
template <>
struct Wire<OperationRequeued>
    : TextWire<OperationRequeued, &OperationRequeued::path, proto::RUN_OPERATION_REQUEUED> {};
template <>
struct Wire<OperationUnknown> {
  static constexpr auto kType = proto::RUN_OPERATION_UNKNOWN;
  using Proto = proto::RunOperationUnknown;
  static void write(const OperationUnknown& event, Proto& out) {
    out.set_path(event.path);
    out.set_attempt(event.attempt);
    out.set_code(number(event.code));
    out.set_then(number(event.then));
    out.set_next_ms(event.next_ms);
    put_ref(out, &Proto::mutable_message, event.message);
  }
  static Result<OperationUnknown> read(const Proto& in) {
    OperationUnknown event{
        .path = in.path(), .attempt = in.attempt(), .code = static_cast<base::Code>(in.code())};
    event.next_ms = in.next_ms();
    SG_RUN_TAKE(event.then, enum_from(in.then(), Recovery::resend));
    SG_RUN_TAKE(event.message, engine::codec::from_proto(in.message()));
    return event;
  }
};
template <>
struct Wire<OperationProbed> {
  static constexpr auto kType = proto::RUN_OPERATION_PROBED;
  using Proto = proto::RunOperationProbed;
  static void write(const OperationProbed& event, Proto& out) {
    out.set_path(event.path);
    out.set_code(number(event.code));
    out.set_failed(event.failed);
    out.set_next_ms(event.next_ms);
  }
  static Result<OperationProbed> read(const Proto& in) {
    return OperationProbed{in.path(), static_cast<base::Code>(in.code()), in.failed(), in.next_ms()};
  }
};
template <>
struct Wire<OperationProbeStarted>
    : TextWire<OperationProbeStarted, &OperationProbeStarted::path, proto::RUN_OPERATION_PROBE_STARTED> {};
template <>
struct Wire<OperationDecided> {
  static constexpr auto kType = proto::RUN_OPERATION_DECIDED;
  using Proto = proto::RunOperationDecided;
  static void write(const OperationDecided& event, Proto& out) {
    out.set_path(event.path);
    out.set_verdict(number(event.verdict));
    out.set_by(event.by);
  }
  static Result<OperationDecided> read(const Proto& in) {
    OperationDecided event{.path = in.path(), .by = in.by()};
    SG_RUN_TAKE(event.verdict, enum_from(in.verdict(), core::OutcomeVerdict::again));
    return event;
  }
};
template <>
struct Wire<OperationCancelRequested> : TextWire<OperationCancelRequested, &OperationCancelRequested::path,
                                                 proto::RUN_OPERATION_CANCEL_REQUESTED> {};
template <>
struct Wire<OperationSettled> {
  static constexpr auto kType = proto::RUN_OPERATION_SETTLED;
  using Proto = proto::RunOperationSettled;
  static void write(const OperationSettled& event, Proto& out) {
    out.set_path(event.path);
    out.set_outcome(number(event.outcome));
    out.set_code(number(event.code));
    out.set_side(number(event.side));
    put_ref(out, &Proto::mutable_result, event.result);
    put_ref(out, &Proto::mutable_message, event.message);
  }
  static Result<OperationSettled> read(const Proto& in) {
    OperationSettled event{.path = in.path()};
    event.code = static_cast<base::Code>(in.code());
    SG_RUN_TAKE(event.outcome, enum_from(in.outcome(), core::Outcome::unknown));
    SG_RUN_TAKE(event.side, enum_from(in.side(), kLastSide));
    SG_RUN_TAKE(event.result, engine::codec::from_proto(in.result()));
    SG_RUN_TAKE(event.message, engine::codec::from_proto(in.message()));
    return event;
  }
};

}  // namespace sandglass::engine::run::codec
