#include <algorithm>

#include "engine/schedule/codec/codec.h"
#include "engine/schedule/codec/wire.h"

namespace sandglass::engine::schedule::codec {
namespace {

void to_proto(const OpenRun& open, pb::ScheduleState::Open& out) {
  codec::to_proto(open.fire, *out.mutable_fire());
  out.set_run(open.run.bytes());
  out.set_started_ms(open.started_ms);
  out.set_stopped(open.stopped);
  out.set_version(open.version);
  engine::codec::to_proto(open.token, *out.mutable_token());
}

void to_proto(const Recent& recent, pb::ScheduleState::Recent& out) {
  out.set_at_ms(recent.at_ms);
  out.set_fire(recent.fire);
  out.set_run(engine::codec::stream_bytes(recent.run));
  out.set_ended(recent.ended);
  out.set_how(static_cast<std::uint32_t>(recent.how));
  out.set_code(static_cast<std::uint32_t>(recent.code));
  out.set_reason(static_cast<std::uint32_t>(recent.reason));
  codec::to_proto(recent.skipped, *out.mutable_skipped());
}

base::Status open_from(const pb::ScheduleState& in, State& state) {
  for (const auto& one : in.open()) {
    auto fire = from_proto(one.fire());
    const auto run = engine::codec::stream_from(one.run());
    if (!fire || !run) return damaged("an open run");
    const std::string id = fire->id;
    state.open[id] = {.fire = *std::move(fire),
                      .run = *run,
                      .version = one.version(),
                      .token = engine::codec::from_proto(one.token()),
                      .started_ms = one.started_ms(),
                      .stopped = one.stopped()};
  }
  return {};
}

base::Status recent_from(const pb::ScheduleState& in, State& state) {
  for (const auto& one : in.recent()) {
    const auto run = engine::codec::stream_from(one.run());
    if (!run || !is_run_end(one.how()) || !is_reason(one.reason())) return damaged("what happened lately");
    state.recent.push_back({.at_ms = one.at_ms(),
                            .fire = one.fire(),
                            .run = *run,
                            .ended = one.ended(),
                            .how = static_cast<RunEnd>(one.how()),
                            .code = static_cast<base::Code>(one.code()),
                            .reason = static_cast<SkipReason>(one.reason()),
                            .skipped = from_proto(one.skipped())});
  }
  return {};
}

/// Lists of what waits and what is under way.
base::Status lists_from(const pb::ScheduleState& in, State& state) {
  for (const auto& one : in.waiting()) {
    auto fire = from_proto(one);
    if (!fire) return std::unexpected(fire.error());
    state.waiting.push_back(*std::move(fire));
  }
  for (const auto& one : in.backfills()) {
    state.backfills.push_back({one.number(), one.after_ms(), one.to_ms()});
  }
  if (in.has_asked() && in.asked().backfill() && state.backfills.empty()) return damaged("a backfill");
  if (auto opened = open_from(in, state); !opened) return opened;
  return recent_from(in, state);
}

}  // namespace

std::string ScheduleCodec::encode_state(const State& state) {
  pb::ScheduleState out;
  out.set_stage(static_cast<std::uint32_t>(state.stage));
  out.set_incarnation(state.incarnation);
  if (state.stage != Stage::none) codec::to_proto(state.definition, *out.mutable_definition());
  out.set_by(state.by);
  out.set_changed_ms(state.changed_ms);
  out.set_paused_ms(state.paused_ms);
  out.set_zone_data(state.zone_data);
  out.set_version(state.version);
  out.set_covered_ms(state.covered_ms);
  out.set_pause_until_ms(state.pause_until_ms);
  out.set_wants_plan(state.wants_plan);
  if (state.next) codec::to_proto(*state.next, *out.mutable_next());
  out.set_wake_ms(state.wake_ms);
  if (state.asked) codec::to_proto(*state.asked, *out.mutable_asked());
  out.set_problem(static_cast<std::uint32_t>(state.problem));
  out.set_problem_text(state.problem_text);
  for (const Fire& fire : state.waiting) codec::to_proto(fire, *out.add_waiting());
  for (const auto& [id, open] : state.open) to_proto(open, *out.add_open());
  for (const Backfill& backfill : state.backfills) {
    auto& one = *out.add_backfills();
    one.set_number(backfill.number);
    one.set_after_ms(backfill.after_ms);
    one.set_to_ms(backfill.to_ms);
  }
  out.set_last_number(state.last_number);
  out.set_fired(state.fired);
  out.set_started(state.started);
  out.set_completed(state.completed);
  out.set_not_completed(state.not_completed);
  for (const std::uint64_t count : state.skipped) out.add_skipped(count);
  for (const Recent& recent : state.recent) to_proto(recent, *out.add_recent());
  return out.SerializeAsString();
}

base::Result<State> ScheduleCodec::decode_state(std::string_view bytes) {
  pb::ScheduleState in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return damaged("the state");
  if (in.stage() > static_cast<std::uint32_t>(Stage::deleted)) return damaged("the stage");
  State state;
  state.stage = static_cast<Stage>(in.stage());
  state.incarnation = in.incarnation();
  if (in.has_definition()) {
    auto definition = from_proto(in.definition());
    if (!definition) return std::unexpected(definition.error());
    state.definition = *std::move(definition);
  }
  state.by = in.by();
  state.changed_ms = in.changed_ms();
  state.paused_ms = in.paused_ms();
  state.zone_data = in.zone_data();
  state.version = in.version();
  state.covered_ms = in.covered_ms();
  state.pause_until_ms = in.pause_until_ms();
  state.wants_plan = in.wants_plan();
  if (in.has_next()) state.next = from_proto(in.next());
  state.wake_ms = in.wake_ms();
  if (in.has_asked()) state.asked = from_proto(in.asked());
  state.problem = static_cast<base::Code>(in.problem());
  state.problem_text = in.problem_text();
  state.last_number = in.last_number();
  state.fired = in.fired();
  state.started = in.started();
  state.completed = in.completed();
  state.not_completed = in.not_completed();
  for (int i = 0; i < in.skipped_size() && i < static_cast<int>(kSkipReasons); ++i) {
    state.skipped[static_cast<std::size_t>(i)] = in.skipped(i);
  }
  if (auto lists = lists_from(in, state); !lists) return std::unexpected(lists.error());
  return state;
}

}  // namespace sandglass::engine::schedule::codec
