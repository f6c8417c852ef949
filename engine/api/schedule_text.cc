#include "engine/api/schedule_text.h"

#include <algorithm>

namespace sandglass::engine::api {
namespace {

constexpr int kUpcoming = 10;

/// As messages and lists show it.
bool is_plain(const std::string& text) {
  return text.size() <= 128 &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

base::Result<schedule::Overlap> overlap_from(const std::string& text) {
  if (text.empty()) return schedule::Overlap::skip;
  std::string known;
  for (const auto overlap : schedule::kOverlaps) {
    if (name_of(overlap) == text) return overlap;
    known += (known.empty() ? "" : ", ") + std::string(name_of(overlap));
  }
  return base::fail(base::Code::invalid_argument,
                    "there is no overlap policy \"" + text + "\"; there are " + known);
}

std::string run_text(const core::StreamId& run) {
  return run == core::StreamId{} ? "" : run.text();
}

void fill_spec(const schedule::Definition& definition, v1::ScheduleSpec& out) {
  out.set_workflow(definition.workflow);
  out.set_user(definition.user);
  for (const auto& cron : definition.timing.crons) out.add_crons(cron);
  for (const auto& interval : definition.timing.intervals) {
    auto& repeat = *out.add_repeats();
    repeat.set_every_ms(interval.every_ms);
    repeat.set_offset_ms(interval.offset_ms);
  }
  out.set_zone(definition.timing.zone);
  out.set_start_ms(definition.timing.start_ms);
  out.set_end_ms(definition.timing.end_ms);
  out.set_jitter_ms(definition.timing.jitter_ms);
  out.set_overlap(std::string(name_of(definition.overlap)));
  out.set_buffer(definition.buffer);
  out.set_one_session(definition.accumulates);
  out.set_catch_up_ms(definition.catch_up_ms);
  out.set_catch_up_most(definition.catch_up_most);
  out.set_runs(definition.runs);
}

void fill_news(const schedule::Recent& recent, v1::ScheduleNews& out) {
  out.set_at_ms(recent.at_ms);
  if (recent.fire.empty()) {
    out.set_what("skipped");
    out.set_reason(std::string(name_of(recent.reason)));
    out.set_count(recent.skipped.count);
    out.set_first_ms(recent.skipped.first_ms);
    out.set_last_ms(recent.skipped.last_ms);
    return;
  }
  out.set_what(recent.ended ? std::string(name_of(recent.how)) : "started");
  out.set_fire(recent.fire);
  out.set_run_id(run_text(recent.run));
  out.set_error_code(static_cast<std::uint32_t>(recent.code));
}

}  // namespace

base::Result<schedule::Definition> definition_from(const std::string& name, const std::string& tenant,
                                                   const v1::ScheduleSpec& spec) {
  auto overlap = overlap_from(spec.overlap());
  if (!overlap) return std::unexpected(overlap.error());
  schedule::Definition made{.name = name,
                            .tenant = tenant,
                            .user = spec.user().empty() ? "cron:" + name : spec.user(),
                            .workflow = spec.workflow(),
                            .timing = {.crons = {spec.crons().begin(), spec.crons().end()},
                                       .zone = spec.zone(),
                                       .start_ms = spec.start_ms(),
                                       .end_ms = spec.end_ms(),
                                       .jitter_ms = spec.jitter_ms()},
                            .overlap = *overlap,
                            .accumulates = spec.one_session(),
                            .runs = spec.runs()};
  for (const auto& repeat : spec.repeats()) {
    made.timing.intervals.push_back({repeat.every_ms(), repeat.offset_ms()});
  }
  if (spec.buffer() != 0) made.buffer = spec.buffer();
  if (spec.has_catch_up_ms()) made.catch_up_ms = spec.catch_up_ms();
  if (spec.catch_up_most() != 0) made.catch_up_most = spec.catch_up_most();
  if (!is_plain(made.user) || !is_plain(made.timing.zone))
    return base::fail(base::Code::invalid_argument,
                      "user and zone are at most 128 bytes each, without control characters");
  if (auto checked = check_definition(made); !checked) return std::unexpected(checked.error());
  return made;
}

void fill_summary(const core::StreamId& stream, const schedule::view::ScheduleRow& row,
                  v1::ScheduleSummary& out) {
  out.set_name(row.name);
  out.set_schedule_id(stream.text());
  out.set_tenant(row.tenant);
  out.set_user(row.user);
  out.set_workflow(row.workflow);
  out.set_status(row.stage == schedule::Stage::paused ? "paused" : "active");
  out.set_rules(row.rules);
  out.set_zone(row.zone.empty() ? "UTC" : row.zone);
  out.set_overlap(std::string(name_of(row.overlap)));
  out.set_next_ms(row.next_ms);
  out.set_error_code(static_cast<std::uint32_t>(row.problem));
}

void fill_detail(const core::StreamId& stream, const schedule::State& state, v1::ScheduleDetail& out) {
  fill_summary(stream, schedule::view::row_of(state), *out.mutable_summary());
  fill_spec(state.definition, *out.mutable_spec());
  for (const auto& [id, open] : state.open) {
    auto& run = *out.add_open();
    run.set_fire(id);
    run.set_run_id(open.run.text());
    run.set_cause(std::string(name_of(open.fire.cause)));
    run.set_started_ms(open.started_ms);
    run.set_stopped(open.stopped);
  }
  for (const auto& fire : state.waiting) out.add_waiting(fire.id);
  for (const auto& recent : state.recent) fill_news(recent, *out.add_news());
  out.set_fired(state.fired);
  out.set_started(state.started);
  out.set_completed(state.completed);
  out.set_not_completed(state.not_completed);
  for (std::size_t i = 0; i < state.skipped.size(); ++i) {
    if (state.skipped[i] == 0) continue;
    auto& count = *out.add_skipped();
    count.set_reason(std::string(name_of(static_cast<schedule::SkipReason>(i + 1))));
    count.set_count(state.skipped[i]);
  }
  out.set_backfills(static_cast<std::uint32_t>(state.backfills.size()));
  out.set_zone_data(state.zone_data);
  out.set_changed_by(state.by);
  out.set_changed_ms(state.changed_ms);
  out.set_paused_ms(state.paused_ms);
  out.set_error(state.problem_text);
}

void fill_upcoming(const core::StreamId& stream, const schedule::State& state, const schedule::Zone& zone,
                   v1::ScheduleDetail& out) {
  const auto calendar = schedule::Calendar::make(state.definition.timing);
  if (!calendar || state.used_up()) return;
  const std::uint64_t left = state.definition.runs == 0 ? kUpcoming : state.definition.runs - state.fired;
  auto moment = calendar->next(zone, state.covered_ms);
  while (moment && out.upcoming_ms_size() < kUpcoming &&
         static_cast<std::uint64_t>(out.upcoming_ms_size()) < left) {
    const auto following = calendar->next(zone, *moment);
    out.add_upcoming_ms(
        *moment + schedule::jitter_of(stream.text(), *moment, state.definition.timing.jitter_ms, following));
    moment = following;
  }
}

}  // namespace sandglass::engine::api
