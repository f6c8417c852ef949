#include "engine/schedule/codec/codec.h"

#include "engine/schedule/codec/wire.h"
#include "engine/schedule/view/schedule_view.h"

namespace sandglass::engine::schedule::codec {
namespace {

// Event types; stored, never used again: the place in Event, from 1.
template <class Message>
fold::EncodedEvent encoded(std::uint32_t type, const Message& message) {
  return {.type = type, .body = message.SerializeAsString()};
}

template <class Message, class From>
fold::EncodedEvent only_by(std::uint32_t type, const From& event) {
  Message out;
  out.set_by(event.by);
  return encoded(type, out);
}

template <class Message, class From>
fold::EncodedEvent defined(std::uint32_t type, const From& event) {
  Message out;
  to_proto(event.definition, *out.mutable_definition());
  out.set_by(event.by);
  out.set_from_ms(event.from_ms);
  return encoded(type, out);
}

template <class Message, class From>
fold::EncodedEvent failed(std::uint32_t type, const From& event) {
  Message out;
  out.set_code(static_cast<std::uint32_t>(event.code));
  out.set_message(event.message);
  return encoded(type, out);
}

struct Encode {
  using Encoded = fold::EncodedEvent;

  Encoded operator()(const ScheduleCreated& event) const { return defined<pb::ScheduleCreated>(1, event); }
  Encoded operator()(const ScheduleUpdated& event) const { return defined<pb::ScheduleUpdated>(2, event); }
  Encoded operator()(const SchedulePaused& event) const { return only_by<pb::SchedulePaused>(3, event); }
  Encoded operator()(const ScheduleResumed& event) const {
    pb::ScheduleResumed out;
    out.set_by(event.by);
    out.set_until_ms(event.until_ms);
    return encoded(4, out);
  }
  Encoded operator()(const ScheduleDeleted& event) const { return only_by<pb::ScheduleDeleted>(5, event); }
  Encoded operator()(const WakeSet& event) const {
    pb::WakeSet out;
    out.set_due_ms(event.due_ms);
    return encoded(6, out);
  }
  Encoded operator()(const PlanAsked& event) const {
    pb::PlanAsked out;
    to_proto(event, out);
    return encoded(7, out);
  }
  Encoded operator()(const PlanTaken& event) const {
    pb::PlanTaken out;
    out.set_zone_data(event.zone_data);
    out.set_version(event.version);
    out.set_covered_ms(event.covered_ms);
    out.set_more(event.more);
    if (event.next) to_proto(*event.next, *out.mutable_next());
    return encoded(8, out);
  }
  Encoded operator()(const PlanFailed& event) const { return failed<pb::PlanFailed>(9, event); }
  Encoded operator()(const MomentsSkipped& event) const {
    pb::MomentsSkipped out;
    out.set_reason(static_cast<std::uint32_t>(event.reason));
    to_proto(event.moments, *out.mutable_moments());
    out.set_fire(event.fire);
    return encoded(10, out);
  }
  Encoded operator()(const Fired& event) const {
    pb::Fired out;
    to_proto(event.fire, *out.mutable_fire());
    out.set_by(event.by);
    return encoded(11, out);
  }
  Encoded operator()(const BackfillAsked& event) const {
    pb::BackfillAsked out;
    out.set_number(event.number);
    out.set_from_ms(event.from_ms);
    out.set_to_ms(event.to_ms);
    out.set_by(event.by);
    return encoded(12, out);
  }
  Encoded operator()(const ScheduledRunStarted& event) const {
    pb::ScheduledRunStarted out;
    out.set_fire(event.fire);
    out.set_run(event.run.bytes());
    out.set_version(event.version);
    engine::codec::to_proto(event.token, *out.mutable_token());
    return encoded(13, out);
  }
  Encoded operator()(const ScheduledRunLost& event) const {
    pb::ScheduledRunLost out;
    out.set_fire(event.fire);
    engine::codec::to_proto(event.token, *out.mutable_token());
    return encoded(14, out);
  }
  Encoded operator()(const ScheduledRunStopped& event) const {
    pb::ScheduledRunStopped out;
    out.set_fire(event.fire);
    out.set_terminate(event.terminate);
    return encoded(15, out);
  }
  Encoded operator()(const ScheduledRunEnded& event) const {
    pb::ScheduledRunEnded out;
    out.set_fire(event.fire);
    out.set_run(engine::codec::stream_bytes(event.run));
    out.set_how(static_cast<std::uint32_t>(event.how));
    out.set_code(static_cast<std::uint32_t>(event.code));
    return encoded(16, out);
  }
};

using Decoded = base::Result<Event>;

template <class Made, class Message>
Decoded with_definition(const Message& in) {
  auto definition = from_proto(in.definition());
  if (!definition) return std::unexpected(definition.error());
  return Made{*std::move(definition), in.by(), in.from_ms()};
}

Decoded decode(const pb::ScheduleCreated& in) {
  return with_definition<ScheduleCreated>(in);
}
Decoded decode(const pb::ScheduleUpdated& in) {
  return with_definition<ScheduleUpdated>(in);
}
Decoded decode(const pb::SchedulePaused& in) {
  return SchedulePaused{in.by()};
}
Decoded decode(const pb::ScheduleResumed& in) {
  return ScheduleResumed{in.by(), in.until_ms()};
}
Decoded decode(const pb::ScheduleDeleted& in) {
  return ScheduleDeleted{in.by()};
}
Decoded decode(const pb::WakeSet& in) {
  return WakeSet{in.due_ms()};
}
Decoded decode(const pb::PlanAsked& in) {
  return from_proto(in);
}
Decoded decode(const pb::PlanTaken& in) {
  PlanTaken out{
      .zone_data = in.zone_data(), .version = in.version(), .covered_ms = in.covered_ms(), .more = in.more()};
  if (in.has_next()) out.next = from_proto(in.next());
  return out;
}
Decoded decode(const pb::PlanFailed& in) {
  return PlanFailed{static_cast<base::Code>(in.code()), in.message()};
}
Decoded decode(const pb::MomentsSkipped& in) {
  if (!is_reason(in.reason())) return damaged("MomentsSkipped");
  return MomentsSkipped{static_cast<SkipReason>(in.reason()), from_proto(in.moments()), in.fire()};
}
Decoded decode(const pb::Fired& in) {
  auto fire = from_proto(in.fire());
  if (!fire) return std::unexpected(fire.error());
  return Fired{*std::move(fire), in.by()};
}
Decoded decode(const pb::BackfillAsked& in) {
  return BackfillAsked{in.number(), in.from_ms(), in.to_ms(), in.by()};
}
Decoded decode(const pb::ScheduledRunStarted& in) {
  const auto run = engine::codec::stream_from(in.run());
  if (!run) return damaged("ScheduledRunStarted");
  return ScheduledRunStarted{in.fire(), *run, in.version(), engine::codec::from_proto(in.token())};
}
Decoded decode(const pb::ScheduledRunLost& in) {
  return ScheduledRunLost{in.fire(), engine::codec::from_proto(in.token())};
}
Decoded decode(const pb::ScheduledRunStopped& in) {
  return ScheduledRunStopped{in.fire(), in.terminate()};
}
Decoded decode(const pb::ScheduledRunEnded& in) {
  const auto run = engine::codec::stream_from(in.run());
  if (!run || !is_run_end(in.how())) return damaged("ScheduledRunEnded");
  return ScheduledRunEnded{in.fire(), *run, static_cast<RunEnd>(in.how()),
                           static_cast<base::Code>(in.code())};
}

template <class Message>
Decoded parsed(const std::string& body) {
  Message in;
  if (!in.ParseFromString(body)) return damaged(Message::descriptor()->name());
  return decode(in);
}

using Parse = Decoded (*)(const std::string&);
constexpr Parse kParse[] = {parsed<pb::ScheduleCreated>,
                            parsed<pb::ScheduleUpdated>,
                            parsed<pb::SchedulePaused>,
                            parsed<pb::ScheduleResumed>,
                            parsed<pb::ScheduleDeleted>,
                            parsed<pb::WakeSet>,
                            parsed<pb::PlanAsked>,
                            parsed<pb::PlanTaken>,
                            parsed<pb::PlanFailed>,
                            parsed<pb::MomentsSkipped>,
                            parsed<pb::Fired>,
                            parsed<pb::BackfillAsked>,
                            parsed<pb::ScheduledRunStarted>,
                            parsed<pb::ScheduledRunLost>,
                            parsed<pb::ScheduledRunStopped>,
                            parsed<pb::ScheduledRunEnded>};

}  // namespace

fold::EncodedEvent ScheduleCodec::encode(const Event& event) {
  return std::visit(Encode{}, event);
}

base::Result<Event> ScheduleCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.version == 1 && encoded.type >= 1 && encoded.type <= std::size(kParse))
    return kParse[encoded.type - 1](encoded.body);
  return base::fail(base::Code::event_unknown, "schedule event type " + std::to_string(encoded.type) +
                                                   " version " + std::to_string(encoded.version) +
                                                   " is newer than this program; start a newer Sandglass");
}

std::shared_ptr<const fold::AnyKind> make_schedule_kind() {
  return std::make_shared<
      fold::Kind<core::StreamKind::schedule, false, ScheduleDecider, ScheduleCodec, view::ScheduleView>>();
}

}  // namespace sandglass::engine::schedule::codec
