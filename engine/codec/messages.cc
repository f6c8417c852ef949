#include "engine/codec/messages.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/codec/common.h"
#include "schemas/sandglass/record/v1/messages.pb.h"

namespace sandglass::engine::codec {
namespace {

using base::Result;

// One Wire<Body> per body: its stored type, how it is written, how it is read.
template <class Body>
struct Wire;

/// Bodies without fields.
template <class Body, proto::MessageType kStoredType>
struct EmptyWire {
  static constexpr proto::MessageType kType = kStoredType;
  using Proto = proto::Nothing;
  static void write(const Body&, Proto&) {}
  static Result<Body> read(const Proto&) { return Body{}; }
};
template <>
struct Wire<core::LeaseCancelled> : EmptyWire<core::LeaseCancelled, proto::MESSAGE_TYPE_LEASE_CANCELLED> {};
template <>
struct Wire<core::ApprovalWithdrawn>
    : EmptyWire<core::ApprovalWithdrawn, proto::MESSAGE_TYPE_APPROVAL_WITHDRAWN> {};

/// Bodies that name a sandbox and its token.
template <class Body, proto::MessageType kStoredType>
struct NamedWire {
  static constexpr proto::MessageType kType = kStoredType;
  using Proto = proto::LeaseNamed;
  static void write(const Body& body, Proto& out) {
    out.set_sandbox(body.sandbox);
    out.set_token(body.token);
    if constexpr (requires { body.code; }) out.set_code(static_cast<std::uint32_t>(body.code));
  }
  static Result<Body> read(const Proto& in) {
    Body body{};
    body.sandbox = in.sandbox();
    body.token = in.token();
    if constexpr (requires { body.code; }) body.code = static_cast<base::Code>(in.code());
    return body;
  }
};
template <>
struct Wire<core::LeaseExpiring> : NamedWire<core::LeaseExpiring, proto::MESSAGE_TYPE_LEASE_EXPIRING> {};
template <>
struct Wire<core::LeaseKept> : NamedWire<core::LeaseKept, proto::MESSAGE_TYPE_LEASE_KEPT> {};
template <>
struct Wire<core::LeaseReturned> : NamedWire<core::LeaseReturned, proto::MESSAGE_TYPE_LEASE_RETURNED> {};
template <>
struct Wire<core::LeaseEnded> : NamedWire<core::LeaseEnded, proto::MESSAGE_TYPE_LEASE_ENDED> {};

template <>
struct Wire<core::LeaseRequested> {
  static constexpr auto kType = proto::MESSAGE_TYPE_LEASE_REQUESTED;
  using Proto = proto::LeaseRequested;
  static void write(const core::LeaseRequested& body, Proto& out) {
    out.set_template_name(body.template_name);
    out.set_tenant(body.tenant);
    out.set_user(body.user);
    out.set_wait_timeout_ms(body.wait_timeout_ms);
  }
  static Result<core::LeaseRequested> read(const Proto& in) {
    return core::LeaseRequested{.template_name = in.template_name(),
                                .tenant = in.tenant(),
                                .user = in.user(),
                                .wait_timeout_ms = in.wait_timeout_ms()};
  }
};

template <>
struct Wire<core::LeaseReserved> {
  static constexpr auto kType = proto::MESSAGE_TYPE_LEASE_RESERVED;
  using Proto = proto::LeaseReserved;
  static void write(const core::LeaseReserved& body, Proto& out) {
    out.set_run(stream_bytes(body.run));
    out.set_reservation(body.reservation);
    out.set_template_name(body.template_name);
    out.set_tenant(body.tenant);
    out.set_user(body.user);
  }
  static Result<core::LeaseReserved> read(const Proto& in) {
    const auto run = stream_from(in.run());
    if (!run) return std::unexpected(run.error());
    return core::LeaseReserved{.run = *run,
                               .reservation = in.reservation(),
                               .template_name = in.template_name(),
                               .tenant = in.tenant(),
                               .user = in.user()};
  }
};

template <>
struct Wire<core::LeaseGranted> {
  static constexpr auto kType = proto::MESSAGE_TYPE_LEASE_GRANTED;
  using Proto = proto::LeaseGranted;
  static void write(const core::LeaseGranted& body, Proto& out) {
    out.set_sandbox(body.sandbox);
    out.set_token(body.token);
    out.set_ttl_ms(body.ttl_ms);
    out.set_provider(body.provider);
    out.set_unenforced(body.unenforced);
  }
  static Result<core::LeaseGranted> read(const Proto& in) {
    return core::LeaseGranted{.sandbox = in.sandbox(),
                              .token = in.token(),
                              .ttl_ms = in.ttl_ms(),
                              .provider = in.provider(),
                              .unenforced = in.unenforced()};
  }
};

template <>
struct Wire<core::LeaseRefused> {
  static constexpr auto kType = proto::MESSAGE_TYPE_LEASE_REFUSED;
  using Proto = proto::LeaseRefused;
  static void write(const core::LeaseRefused& body, Proto& out) {
    out.set_code(static_cast<std::uint32_t>(body.code));
    out.set_message(body.message);
  }
  static Result<core::LeaseRefused> read(const Proto& in) {
    return core::LeaseRefused{.code = static_cast<base::Code>(in.code()), .message = in.message()};
  }
};

template <>
struct Wire<core::LeaseQueued> {
  static constexpr auto kType = proto::MESSAGE_TYPE_LEASE_QUEUED;
  using Proto = proto::LeaseQueued;
  static void write(const core::LeaseQueued& body, Proto& out) { out.set_position(body.position); }
  static Result<core::LeaseQueued> read(const Proto& in) {
    return core::LeaseQueued{.position = in.position()};
  }
};

template <>
struct Wire<core::ReservationFreed> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RESERVATION_FREED;
  using Proto = proto::ReservationFreed;
  static void write(const core::ReservationFreed& body, Proto& out) { out.set_reservation(body.reservation); }
  static Result<core::ReservationFreed> read(const Proto& in) {
    return core::ReservationFreed{.reservation = in.reservation()};
  }
};

template <>
struct Wire<core::ApprovalRequested> {
  static constexpr auto kType = proto::MESSAGE_TYPE_APPROVAL_REQUESTED;
  using Proto = proto::ApprovalRequested;
  static void write(const core::ApprovalRequested& body, Proto& out) {
    out.set_tenant(body.tenant);
    out.set_tool(body.tool);
    out.set_level(body.level);
    out.set_arguments(hash_bytes(body.arguments.hash));
    out.set_expires_ms(body.expires_ms);
    out.set_approvers(body.approvers);
    out.set_user(body.user);
  }
  static Result<core::ApprovalRequested> read(const Proto& in) {
    const auto arguments = hash_from(in.arguments());
    if (!arguments) return std::unexpected(arguments.error());
    return core::ApprovalRequested{.tenant = in.tenant(),
                                   .user = in.user(),
                                   .tool = in.tool(),
                                   .level = in.level(),
                                   .arguments = {*arguments},
                                   .expires_ms = in.expires_ms(),
                                   .approvers = in.approvers()};
  }
};

template <>
struct Wire<core::ApprovalDecided> {
  static constexpr auto kType = proto::MESSAGE_TYPE_APPROVAL_DECIDED;
  using Proto = proto::ApprovalDecided;
  static void write(const core::ApprovalDecided& body, Proto& out) {
    out.set_code(static_cast<std::uint32_t>(body.code));
    out.set_arguments(hash_bytes(body.arguments.hash));
  }
  static Result<core::ApprovalDecided> read(const Proto& in) {
    const auto arguments = hash_from(in.arguments());
    if (!arguments) return std::unexpected(arguments.error());
    return core::ApprovalDecided{.code = static_cast<base::Code>(in.code()), .arguments = {*arguments}};
  }
};

template <>
struct Wire<core::OutcomeAsked> {
  static constexpr auto kType = proto::MESSAGE_TYPE_OUTCOME_ASKED;
  using Proto = proto::OutcomeAsked;
  static void write(const core::OutcomeAsked& body, Proto& out) {
    out.set_tenant(body.tenant);
    out.set_user(body.user);
    out.set_tool(body.tool);
    out.set_level(body.level);
    out.set_path(body.path);
    out.set_target(body.target);
    out.set_key(body.key);
    out.set_attempt(body.attempt);
    out.set_code(static_cast<std::uint32_t>(body.code));
    out.set_sent_ms(body.sent_ms);
    out.set_unknown_ms(body.unknown_ms);
    to_proto(body.input, *out.mutable_input());
  }
  static Result<core::OutcomeAsked> read(const Proto& in) {
    const auto input = from_proto(in.input());
    if (!input) return std::unexpected(input.error());
    return core::OutcomeAsked{.tenant = in.tenant(),
                              .user = in.user(),
                              .tool = in.tool(),
                              .level = in.level(),
                              .path = in.path(),
                              .target = in.target(),
                              .key = in.key(),
                              .attempt = in.attempt(),
                              .code = static_cast<base::Code>(in.code()),
                              .sent_ms = in.sent_ms(),
                              .unknown_ms = in.unknown_ms(),
                              .input = *input};
  }
};

template <>
struct Wire<core::OutcomeDecided> {
  static constexpr auto kType = proto::MESSAGE_TYPE_OUTCOME_DECIDED;
  using Proto = proto::OutcomeDecided;
  static void write(const core::OutcomeDecided& body, Proto& out) {
    out.set_arguments(hash_bytes(body.arguments.hash));
    out.set_verdict(static_cast<std::uint32_t>(body.verdict));
    out.set_by(body.by);
  }
  static Result<core::OutcomeDecided> read(const Proto& in) {
    const auto arguments = hash_from(in.arguments());
    if (!arguments) return std::unexpected(arguments.error());
    if (in.verdict() > static_cast<std::uint32_t>(core::OutcomeVerdict::again)) {
      return base::fail(base::Code::event_unknown,
                        "a stored verdict is newer than this program; use the program that wrote it");
    }
    return core::OutcomeDecided{
        .arguments = {*arguments}, .verdict = static_cast<core::OutcomeVerdict>(in.verdict()), .by = in.by()};
  }
};

void put_asker(const core::RunAsker& asker, proto::RunAsker& out) {
  out.set_stream(stream_bytes(asker.stream));
  out.set_correlation(asker.correlation);
}
template <class Askers>
Result<std::vector<core::RunAsker>> askers_from(const Askers& stored) {
  std::vector<core::RunAsker> askers;
  for (const proto::RunAsker& asker : stored) {
    const auto stream = stream_from(asker.stream());
    if (!stream) return std::unexpected(stream.error());
    askers.push_back({*stream, asker.correlation()});
  }
  return askers;
}

template <>
struct Wire<core::RunStartRequested> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RUN_START_REQUESTED;
  using Proto = proto::RunStartRequested;
  static void write(const core::RunStartRequested& body, Proto& out) {
    out.set_workflow(body.workflow);
    out.set_version(body.version);
    out.set_tenant(body.tenant);
    out.set_user(body.user);
    out.set_session(body.session);
    out.set_history_root(body.history_root);
    out.set_effect_root(body.effect_root);
    for (const core::RunAsker& asker : body.askers) put_asker(asker, *out.add_askers());
    out.set_continues(stream_bytes(body.continues));
  }
  static Result<core::RunStartRequested> read(const Proto& in) {
    auto askers = askers_from(in.askers());
    if (!askers) return std::unexpected(askers.error());
    const auto continues = stream_from(in.continues());
    if (!continues) return std::unexpected(continues.error());
    return core::RunStartRequested{.workflow = in.workflow(),
                                   .version = in.version(),
                                   .tenant = in.tenant(),
                                   .user = in.user(),
                                   .session = in.session(),
                                   .history_root = in.history_root(),
                                   .effect_root = in.effect_root(),
                                   .askers = std::move(*askers),
                                   .continues = *continues};
  }
};

template <>
struct Wire<core::RunEnded> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RUN_ENDED;
  using Proto = proto::RunEnded;
  static void write(const core::RunEnded& body, Proto& out) {
    out.set_how(static_cast<std::uint32_t>(body.how));
    out.set_code(static_cast<std::uint32_t>(body.code));
    out.set_side(static_cast<std::uint32_t>(body.side));
    out.set_run(stream_bytes(body.run));
    if (!body.result.empty()) to_proto(body.result, *out.mutable_result());
    out.set_message(body.message);
  }
  static Result<core::RunEnded> read(const Proto& in) {
    const auto run = stream_from(in.run());
    if (!run) return std::unexpected(run.error());
    const auto result = from_proto(in.result());
    if (!result) return std::unexpected(result.error());
    if (in.how() > static_cast<std::uint32_t>(core::RunEnd::refused) ||
        in.side() > static_cast<std::uint32_t>(core::FailureSide::platform)) {
      return base::fail(base::Code::event_unknown,
                        "a stored end of a run is newer than this program; use the program that wrote it");
    }
    return core::RunEnded{.how = static_cast<core::RunEnd>(in.how()),
                          .code = static_cast<base::Code>(in.code()),
                          .side = static_cast<core::FailureSide>(in.side()),
                          .run = *run,
                          .result = *result,
                          .message = in.message()};
  }
};

template <>
struct Wire<core::RunSignalled> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RUN_SIGNALLED;
  using Proto = proto::RunSignalled;
  static void write(const core::RunSignalled& body, Proto& out) { out.set_name(body.name); }
  static Result<core::RunSignalled> read(const Proto& in) { return core::RunSignalled{in.name()}; }
};

template <>
struct Wire<core::RunStopRequested> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RUN_STOP_REQUESTED;
  using Proto = proto::RunStopRequested;
  static void write(const core::RunStopRequested& body, Proto& out) { out.set_terminate(body.terminate); }
  static Result<core::RunStopRequested> read(const Proto& in) {
    return core::RunStopRequested{in.terminate()};
  }
};

template <>
struct Wire<core::RunAwaited> {
  static constexpr auto kType = proto::MESSAGE_TYPE_RUN_AWAITED;
  using Proto = proto::RunAwaited;
  static void write(const core::RunAwaited& body, Proto& out) {
    for (const core::RunAsker& asker : body.askers) put_asker(asker, *out.add_askers());
  }
  static Result<core::RunAwaited> read(const Proto& in) {
    auto askers = askers_from(in.askers());
    if (!askers) return std::unexpected(askers.error());
    return core::RunAwaited{std::move(*askers)};
  }
};

std::unexpected<base::Error> unknown(const OutMessage& message) {
  return base::fail(base::Code::event_unknown,
                    "message type " + std::to_string(message.type) + " version " +
                        std::to_string(message.version) +
                        " is newer than this program; use the program that wrote it");
}

template <class Body>
Result<core::MessageBody> read_body(const OutMessage& message) {
  typename Wire<Body>::Proto in;
  if (!in.ParseFromString(message.body)) {
    return base::fail(base::Code::record_damaged, "a stored message body is damaged; restore from a backup");
  }
  if (has_unknown_fields(in)) return unknown(message);
  auto body = Wire<Body>::read(in);
  if (!body) return std::unexpected(body.error());
  return core::MessageBody(std::move(*body));
}

/// Tries the alternatives of MessageBody in turn.
template <std::size_t... kIndex>
Result<core::MessageBody> read_any(const OutMessage& message, std::index_sequence<kIndex...>) {
  std::optional<Result<core::MessageBody>> answer;
  const auto consider = [&]<class Body>(std::type_identity<Body>) {
    if (!answer && static_cast<std::uint32_t>(Wire<Body>::kType) == message.type)
      answer = read_body<Body>(message);
  };
  (consider(std::type_identity<std::variant_alternative_t<kIndex, core::AnyMessageBody>>{}), ...);
  if (!answer || message.version != 1) return unknown(message);
  return *std::move(answer);
}

}  // namespace

OutMessage encode_message(const core::Message& message, std::optional<std::uint32_t> payload_slot) {
  SG_CHECK(payload_slot.has_value() == static_cast<bool>(message.payload),
           "a payload has a slot, and only it");
  OutMessage out{.target = message.target,
                 .correlation = message.correlation,
                 .closing = message.closing,
                 .payload_slot = payload_slot,
                 .payload_digest = message.payload.digest};
  std::visit(
      [&]<class Body>(const Body& body) {
        typename Wire<Body>::Proto made;
        Wire<Body>::write(body, made);
        out.type = static_cast<std::uint32_t>(Wire<Body>::kType);
        SG_CHECK(made.SerializeToString(&out.body), "a message body cannot be serialised");
      },
      message.body);
  return out;
}

base::Result<core::Message> decode_message(const TurnHeader& header, std::uint32_t index,
                                           const std::vector<core::SlotPtr>& slots) {
  SG_CHECK(index < header.messages.size(), "no such message in the record");
  const OutMessage& stored = header.messages[index];
  auto body = read_any(stored, std::make_index_sequence<std::variant_size_v<core::AnyMessageBody>>{});
  if (!body) return std::unexpected(body.error());
  core::Message message{.source = header.stream,
                        .target = stored.target,
                        .source_seq = header.seq,
                        .index = index,
                        .correlation = stored.correlation,
                        .closing = stored.closing,
                        .body = std::move(*body),
                        .payload = {}};
  if (stored.payload_slot) {
    if (*stored.payload_slot >= slots.size()) {
      return base::fail(base::Code::record_damaged,
                        "a stored message names a slot that its record does not have");
    }
    message.payload = {.slot = slots[*stored.payload_slot], .digest = stored.payload_digest};
  }
  return message;
}

std::string_view message_name(std::uint32_t type) {
  switch (type) {
    case proto::MESSAGE_TYPE_LEASE_REQUESTED:
      return "LeaseRequested";
    case proto::MESSAGE_TYPE_LEASE_CANCELLED:
      return "LeaseCancelled";
    case proto::MESSAGE_TYPE_LEASE_RESERVED:
      return "LeaseReserved";
    case proto::MESSAGE_TYPE_LEASE_GRANTED:
      return "LeaseGranted";
    case proto::MESSAGE_TYPE_LEASE_REFUSED:
      return "LeaseRefused";
    case proto::MESSAGE_TYPE_LEASE_QUEUED:
      return "LeaseQueued";
    case proto::MESSAGE_TYPE_LEASE_EXPIRING:
      return "LeaseExpiring";
    case proto::MESSAGE_TYPE_LEASE_KEPT:
      return "LeaseKept";
    case proto::MESSAGE_TYPE_LEASE_RETURNED:
      return "LeaseReturned";
    case proto::MESSAGE_TYPE_LEASE_ENDED:
      return "LeaseEnded";
    case proto::MESSAGE_TYPE_RESERVATION_FREED:
      return "ReservationFreed";
    case proto::MESSAGE_TYPE_APPROVAL_REQUESTED:
      return "ApprovalRequested";
    case proto::MESSAGE_TYPE_APPROVAL_WITHDRAWN:
      return "ApprovalWithdrawn";
    case proto::MESSAGE_TYPE_APPROVAL_DECIDED:
      return "ApprovalDecided";
    case proto::MESSAGE_TYPE_OUTCOME_ASKED:
      return "OutcomeAsked";
    case proto::MESSAGE_TYPE_OUTCOME_DECIDED:
      return "OutcomeDecided";
    case proto::MESSAGE_TYPE_RUN_START_REQUESTED:
      return "RunStartRequested";
    case proto::MESSAGE_TYPE_RUN_ENDED:
      return "RunEnded";
    case proto::MESSAGE_TYPE_RUN_SIGNALLED:
      return "RunSignalled";
    case proto::MESSAGE_TYPE_RUN_STOP_REQUESTED:
      return "RunStopRequested";
    case proto::MESSAGE_TYPE_RUN_AWAITED:
      return "RunAwaited";
    default:
      return "unknown";
  }
}

}  // namespace sandglass::engine::codec
