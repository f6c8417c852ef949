// How each event of a run is written and read. Internal to engine/run/codec: included once, by codec.cc.
//
// Wire<E> has the event's stored type, its protobuf message, write() and read(). A read() that fails gives an
// error.
#pragma once

#include <string>

#include "engine/codec/common.h"
#include "engine/run/events.h"
#include "schemas/sandglass/record/v1/run.pb.h"

namespace sandglass::engine::run::codec {

namespace proto = ::sandglass::record::v1;
using base::Result;

template <class E>
struct Wire;

/// A reference that names nothing is not written.
template <class Message>
void put_ref(Message& out, proto::PayloadRef* (Message::*mutable_field)(), const core::PayloadRef& ref) {
  if (ref != core::PayloadRef{}) engine::codec::to_proto(ref, *(out.*mutable_field)());
}

template <class Enum>
std::uint32_t number(Enum value) {
  return static_cast<std::uint32_t>(value);
}

/// An enumeration's stored number, refused if it is above the greatest that this program knows.
template <class Enum>
Result<Enum> enum_from(std::uint32_t value, Enum greatest) {
  if (value > number(greatest)) {
    return base::fail(base::Code::event_unknown, "an event has the value " + std::to_string(value) +
                                                     ", which is newer than this program");
  }
  return static_cast<Enum>(value);
}

/// Assigns the value or returns the error from the enclosing function.
#define SG_RUN_TAKE(target, expression)                           \
  do {                                                            \
    auto taken = (expression);                                    \
    if (!taken) return std::unexpected(std::move(taken).error()); \
    (target) = std::move(*taken);                                 \
  } while (false)

inline constexpr auto kLastSide = core::FailureSide::platform;

// ---- shapes that several events share

/// One payload, member `kMember`.
template <class E, core::PayloadRef E::* kMember, proto::RunEventType kStored>
struct PayloadWire {
  static constexpr auto kType = kStored;
  using Proto = proto::RunOnlyPayload;
  static void write(const E& event, Proto& out) { put_ref(out, &Proto::mutable_payload, event.*kMember); }
  static Result<E> read(const Proto& in) {
    E event;
    SG_RUN_TAKE(event.*kMember, engine::codec::from_proto(in.payload()));
    return event;
  }
};

/// One text, member `kMember`.
template <class E, std::string E::* kMember, proto::RunEventType kStored>
struct TextWire {
  static constexpr auto kType = kStored;
  using Proto = proto::RunOnlyText;
  static void write(const E& event, Proto& out) { out.set_text(event.*kMember); }
  static Result<E> read(const Proto& in) {
    E event;
    event.*kMember = in.text();
    return event;
  }
};

template <class E, proto::RunEventType kStored>
struct NothingWire {
  static constexpr auto kType = kStored;
  using Proto = proto::RunNothing;
  static void write(const E&, Proto&) {}
  static Result<E> read(const Proto&) { return E{}; }
};

/// The end of an attempt: whichever of the fields the event has.
template <class E, proto::RunEventType kStored>
struct AttemptWire {
  static constexpr auto kType = kStored;
  using Proto = proto::RunAttemptEnded;
  static void write(const E& event, Proto& out) {
    out.set_path(event.path);
    out.set_attempt(event.attempt);
    if constexpr (requires { event.code; }) out.set_code(number(event.code));
    if constexpr (requires { event.side; }) out.set_side(number(event.side));
    if constexpr (requires { event.next_ms; }) out.set_next_ms(event.next_ms);
    if constexpr (requires { event.result; }) put_ref(out, &Proto::mutable_payload, event.result);
    if constexpr (requires { event.details; }) put_ref(out, &Proto::mutable_payload, event.details);
    if constexpr (requires { event.message; }) put_ref(out, &Proto::mutable_message, event.message);
    if constexpr (requires { event.progress; }) put_ref(out, &Proto::mutable_progress, event.progress);
  }
  static Result<E> read(const Proto& in) {
    E event;
    event.path = in.path();
    event.attempt = in.attempt();
    if constexpr (requires { event.code; }) event.code = static_cast<base::Code>(in.code());
    if constexpr (requires { event.side; }) SG_RUN_TAKE(event.side, enum_from(in.side(), kLastSide));
    if constexpr (requires { event.next_ms; }) event.next_ms = in.next_ms();
    if constexpr (requires { event.result; })
      SG_RUN_TAKE(event.result, engine::codec::from_proto(in.payload()));
    if constexpr (requires { event.details; })
      SG_RUN_TAKE(event.details, engine::codec::from_proto(in.payload()));
    if constexpr (requires { event.message; })
      SG_RUN_TAKE(event.message, engine::codec::from_proto(in.message()));
    if constexpr (requires { event.progress; })
      SG_RUN_TAKE(event.progress, engine::codec::from_proto(in.progress()));
    return event;
  }
};

}  // namespace sandglass::engine::run::codec
