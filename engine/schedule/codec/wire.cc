#include "engine/schedule/codec/wire.h"

namespace sandglass::engine::schedule::codec {

std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::Code::record_damaged,
                    "bytes of a schedule stream do not parse: " + std::string(what));
}

void to_proto(const Definition& definition, pb::ScheduleDefinition& out) {
  out.set_name(definition.name);
  out.set_tenant(definition.tenant);
  out.set_user(definition.user);
  out.set_workflow(definition.workflow);
  const Timing& timing = definition.timing;
  for (const std::string& cron : timing.crons) out.add_crons(cron);
  for (const Interval& interval : timing.intervals) {
    auto& one = *out.add_intervals();
    one.set_every_ms(interval.every_ms);
    one.set_offset_ms(interval.offset_ms);
  }
  out.set_zone(timing.zone);
  out.set_start_ms(timing.start_ms);
  out.set_end_ms(timing.end_ms);
  out.set_jitter_ms(timing.jitter_ms);
  out.set_overlap(static_cast<std::uint32_t>(definition.overlap));
  out.set_buffer(definition.buffer);
  out.set_accumulates(definition.accumulates);
  out.set_catch_up_ms(definition.catch_up_ms);
  out.set_catch_up_most(definition.catch_up_most);
  out.set_runs(definition.runs);
  engine::codec::to_proto(definition.input, *out.mutable_input());
}

base::Result<Definition> from_proto(const pb::ScheduleDefinition& in) {
  const auto input = engine::codec::from_proto(in.input());
  if (!input || in.overlap() < 1 || in.overlap() > kOverlaps.size()) return damaged("a definition");
  Definition out{.name = in.name(),
                 .tenant = in.tenant(),
                 .user = in.user(),
                 .workflow = in.workflow(),
                 .timing = {.crons = {in.crons().begin(), in.crons().end()},
                            .zone = in.zone(),
                            .start_ms = in.start_ms(),
                            .end_ms = in.end_ms(),
                            .jitter_ms = in.jitter_ms()},
                 .overlap = static_cast<Overlap>(in.overlap()),
                 .buffer = in.buffer(),
                 .accumulates = in.accumulates(),
                 .catch_up_ms = in.catch_up_ms(),
                 .catch_up_most = in.catch_up_most(),
                 .runs = in.runs(),
                 .input = *input};
  for (const auto& interval : in.intervals()) {
    out.timing.intervals.push_back({interval.every_ms(), interval.offset_ms()});
  }
  return out;
}

void to_proto(const Occurrence& occurrence, pb::ScheduleOccurrence& out) {
  out.set_moment_ms(occurrence.moment_ms);
  out.set_due_ms(occurrence.due_ms);
}
Occurrence from_proto(const pb::ScheduleOccurrence& in) {
  return {in.moment_ms(), in.due_ms()};
}

void to_proto(const Passed& passed, pb::SchedulePassed& out) {
  out.set_count(passed.count);
  out.set_first_ms(passed.first_ms);
  out.set_last_ms(passed.last_ms);
}
Passed from_proto(const pb::SchedulePassed& in) {
  return {in.count(), in.first_ms(), in.last_ms()};
}

void to_proto(const Fire& fire, pb::ScheduleFire& out) {
  out.set_id(fire.id);
  out.set_moment_ms(fire.moment_ms);
  out.set_cause(static_cast<std::uint32_t>(fire.cause));
}
base::Result<Fire> from_proto(const pb::ScheduleFire& in) {
  if (in.cause() < 1 || in.cause() > 3) return damaged("a fire");
  return Fire{in.id(), in.moment_ms(), static_cast<Cause>(in.cause())};
}

void to_proto(const PlanAsked& asked, pb::PlanAsked& out) {
  engine::codec::to_proto(asked.token, *out.mutable_token());
  out.set_backfill(asked.backfill);
  out.set_until_ms(asked.until_ms);
}
PlanAsked from_proto(const pb::PlanAsked& in) {
  return {engine::codec::from_proto(in.token()), in.backfill(), in.until_ms()};
}

}  // namespace sandglass::engine::schedule::codec
