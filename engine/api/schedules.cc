#include "engine/api/schedules.h"

#include <algorithm>
#include <utility>

#include "engine/api/schedule_text.h"
#include "engine/codec/json.h"
#include "engine/identity/access.h"
#include "engine/view/keys.h"

namespace sandglass::engine::api {
namespace {

using base::Code;

constexpr std::uint32_t kDefaultPage = 50;
constexpr std::uint32_t kLongestPage = 500;
constexpr std::size_t kRowsPerScan = 128;

core::StreamId stream_of(const Caller& caller, const std::string& name) {
  return schedule::schedule_stream(caller.tenant, name);
}

core::CommandPtr command(schedule::Command made) {
  return core::make_command<schedule::Command>(std::move(made));
}

base::Error no_such(const std::string& name) {
  return {Code::not_found, "there is no schedule \"" + name +
                               "\" that this token may see; `sandglass schedule list` has them"};
}

/// The definition, its zone and its workflow looked up; and the input.
struct Checked {
  schedule::Definition definition;
  core::Payload input;
};

base::Result<Checked> check(const Backend& backend, const Caller& caller, const std::string& name,
                            const v1::ScheduleSpec& spec) {
  auto definition = definition_from(name, caller.tenant, spec);
  if (!definition) return std::unexpected(definition.error());
  if (!backend.workflows.contains(definition->workflow)) {
    std::string known;
    for (const auto& [workflow, version] : backend.workflows) known += (known.empty() ? "" : ", ") + workflow;
    return base::fail(Code::workflow_unknown,
                      "no workflow named " + definition->workflow + " is registered; there are: " + known);
  }
  if (auto zone = backend.find_zone(definition->timing.zone); !zone) return std::unexpected(zone.error());
  Checked checked{*std::move(definition), {}};
  if (spec.input().empty()) return checked;
  if (auto json = codec::check_json(spec.input()); !json) return std::unexpected(json.error());
  const core::DigestKey key(backend.tenant_key, stream_of(caller, name).text());
  checked.input = key.make(core::Encoding::json, spec.input());
  return checked;
}

/// Rows of one partition after `after`; nothing left: the page goes on in the next one.
base::Status add_rows(const view::View& view, std::uint16_t partition, std::string first,
                      const Caller& caller, std::size_t page, v1::ListSchedulesReply& reply, bool& full) {
  auto range = schedule::view::schedule_rows(partition);
  if (!first.empty()) range.first = std::move(first);
  for (bool more = true; more;) {
    auto scanned = view.scan_now({.first = range.first, .last = range.last, .limit = kRowsPerScan});
    if (!scanned) return std::unexpected(scanned.error());
    more = scanned->more;
    for (const view::Row& each : scanned->rows) {
      const auto key = view::parse_index_key(each.key);
      const auto stream = key ? core::StreamId::from_bytes(key->stream) : std::nullopt;
      auto row = schedule::view::decode_row(each.value);
      if (!row) return std::unexpected(row.error());
      range.first = each.key + '\0';
      if (!stream || !identity::may_touch(caller, row->tenant, row->user)) continue;
      if (static_cast<std::size_t>(reply.schedules_size()) == page) {
        full = true;
        return {};
      }
      fill_summary(*stream, *row, *reply.add_schedules());
      std::string token;
      view::put_u16(token, partition);
      reply.set_next_page_token(base::to_hex(token + stream->bytes()));
    }
  }
  return {};
}

}  // namespace

base::Result<v1::ListSchedulesReply> list_schedules(const view::View& view, std::uint16_t partitions,
                                                    const Caller& caller,
                                                    const v1::ListSchedulesRequest& request) {
  const auto token = base::from_hex(request.page_token());
  if (!token || (!token->empty() && token->size() != 2 + core::StreamId::kBytes))
    return base::fail(Code::invalid_argument, "the page token is not one that a list call gave");
  const std::size_t page =
      request.page_size() == 0 ? kDefaultPage : std::min<std::size_t>(request.page_size(), kLongestPage);
  std::uint16_t partition = 0;
  std::string first;
  if (!token->empty()) {
    partition = view::get_u16(*token);
    const auto stream = core::StreamId::from_bytes(std::string_view(*token).substr(2));
    first = schedule::view::schedule_row_key(partition, *stream) + '\0';
  }
  v1::ListSchedulesReply reply;
  bool full = false;
  for (; partition < partitions && !full; ++partition) {
    auto added = add_rows(view, partition, std::exchange(first, {}), caller, page, reply, full);
    if (!added) return std::unexpected(added.error());
  }
  if (!full) reply.clear_next_page_token();
  return reply;
}

void Schedules::create(const Caller& caller, const v1::CreateScheduleRequest& request,
                       const Changing& changing, Answer<v1::CommandReply> answer) {
  backend_.pool.run([this, caller, request, changing, answer = std::move(answer)]() mutable {
    auto checked = check(backend_, caller, request.name(), request.spec());
    if (!checked) return answer(std::unexpected(checked.error()));
    submit_(stream_of(caller, request.name()),
            command(schedule::CreateSchedule{std::move(checked->definition), std::move(checked->input),
                                             caller.token_name}),
            changing, std::move(answer));
  });
}

void Schedules::update(const Caller& caller, const v1::UpdateScheduleRequest& request,
                       const Changing& changing, Answer<v1::CommandReply> answer) {
  if (request.keep_input() && !request.spec().input().empty())
    return answer(base::fail(Code::invalid_argument, "the input is kept or replaced, not both"));
  backend_.pool.run([this, caller, request, changing, answer = std::move(answer)]() mutable {
    auto checked = check(backend_, caller, request.name(), request.spec());
    if (!checked) return answer(std::unexpected(checked.error()));
    submit_(stream_of(caller, request.name()),
            command(schedule::UpdateSchedule{std::move(checked->definition), std::move(checked->input),
                                             request.keep_input(), caller.token_name}),
            changing, std::move(answer));
  });
}

void Schedules::pause(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
                      Answer<v1::CommandReply> answer) {
  submit_(stream_of(caller, request.name()), command(schedule::PauseSchedule{caller.token_name}), changing,
          std::move(answer));
}
void Schedules::resume(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
                       Answer<v1::CommandReply> answer) {
  submit_(stream_of(caller, request.name()), command(schedule::ResumeSchedule{caller.token_name}), changing,
          std::move(answer));
}
void Schedules::remove(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
                       Answer<v1::CommandReply> answer) {
  submit_(stream_of(caller, request.name()), command(schedule::DeleteSchedule{caller.token_name}), changing,
          std::move(answer));
}
void Schedules::trigger(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
                        Answer<v1::CommandReply> answer) {
  submit_(stream_of(caller, request.name()), command(schedule::TriggerSchedule{caller.token_name}), changing,
          std::move(answer));
}
void Schedules::backfill(const Caller& caller, const v1::BackfillScheduleRequest& request,
                         const Changing& changing, Answer<v1::CommandReply> answer) {
  submit_(stream_of(caller, request.name()),
          command(schedule::BackfillSchedule{request.from_ms(), request.to_ms(), caller.token_name}),
          changing, std::move(answer));
}

void Schedules::get(const Caller& caller, const v1::GetScheduleRequest& request,
                    Answer<v1::ScheduleDetail> answer) {
  const core::StreamId stream = stream_of(caller, request.name());
  backend_.engine.read(stream, [this, caller, stream, name = request.name(),
                                answer = std::move(answer)](base::Result<shard::StreamRead> read) mutable {
    if (!read) return answer(std::unexpected(read.error()));
    const auto* state = &static_cast<const core::StateOf<schedule::State>&>(*read->state).value;
    const bool there = state->stage == schedule::Stage::active || state->stage == schedule::Stage::paused;
    if (!there || !identity::may_touch(caller, state->definition.tenant, state->definition.user))
      return answer(std::unexpected(no_such(name)));
    backend_.pool.run(
        [this, stream, holder = std::move(read->state), state, answer = std::move(answer)]() mutable {
          v1::ScheduleDetail detail;
          fill_detail(stream, *state, detail);
          if (const auto zone = backend_.find_zone(state->definition.timing.zone)) {
            fill_upcoming(stream, *state, **zone, detail);
          }
          answer(std::move(detail));
        });
  });
}

void Schedules::list(const Caller& caller, const v1::ListSchedulesRequest& request,
                     Answer<v1::ListSchedulesReply> answer) {
  backend_.pool.run([this, caller, request, answer = std::move(answer)]() mutable {
    answer(list_schedules(backend_.view, backend_.partitions, caller, request));
  });
}

}  // namespace sandglass::engine::api
