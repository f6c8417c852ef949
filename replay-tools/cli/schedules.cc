// schedule create, update, list, show, pause, resume, trigger, backfill, delete.
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "engine/base/codes.h"
#include "engine/base/system_ports.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/task_input.h"
#include "replay-tools/cli/times.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

std::string id_or_new(const std::string& given) {
  return given.empty() ? client::new_request_id() : given;
}

/// Puts the duration, or the moment, of an option into a field; an empty one is left out.
class Fields {
 public:
  template <class Set>
  void duration(const std::string& text, Set set) {
    put(text, parse_duration, set);
  }
  template <class Set>
  void moment(const std::string& text, Set set) {
    put(text, parse_moment, set);
  }
  const base::Status& status() const { return status_; }

 private:
  template <class Parse, class Set>
  void put(const std::string& text, Parse parse, Set set) {
    if (text.empty() || !status_) return;
    const auto value = parse(text);
    if (value) {
      set(*value);
    } else {
      status_ = std::unexpected(value.error());
    }
  }
  base::Status status_;
};

base::Status fill_times(const ScheduleArgs& args, api::ScheduleSpec& spec) {
  Fields fields;
  for (const auto& text : args.every) {
    const auto plus = text.find('+');
    auto& repeat = *spec.add_repeats();
    fields.duration(text.substr(0, plus), [&](std::int64_t ms) { repeat.set_every_ms(ms); });
    if (plus == std::string::npos) continue;
    fields.duration(text.substr(plus + 1), [&](std::int64_t ms) { repeat.set_offset_ms(ms); });
  }
  fields.duration(args.jitter, [&](std::int64_t ms) { spec.set_jitter_ms(ms); });
  fields.duration(args.catch_up, [&](std::int64_t ms) { spec.set_catch_up_ms(ms); });
  fields.duration(args.delay,
                  [&](std::int64_t ms) { spec.set_start_ms(base::SystemClock().wall_ms() + ms); });
  fields.moment(args.start, [&](std::int64_t ms) { spec.set_start_ms(ms); });
  fields.moment(args.end, [&](std::int64_t ms) { spec.set_end_ms(ms); });
  if (!args.delay.empty() && !args.start.empty())
    return base::fail(Code::usage, "give --delay or --start, not both");
  return fields.status();
}

/// Workflow and input: of a task file, or as they are given.
base::Status fill_work(Session& session, client::Client& client, const ScheduleArgs& args,
                       api::ScheduleSpec& spec) {
  if (args.task.empty()) {
    if (args.workflow.empty())
      return base::fail(Code::usage, "say what each run does: --task FILE, or --workflow NAME");
    auto input = input_text(args.input, args.input_file);
    if (!input) return std::unexpected(input.error());
    spec.set_workflow(args.workflow);
    spec.set_input(*std::move(input));
    return {};
  }
  spec.set_workflow("agent");
  if (args.keep_input) return {};
  const auto task = read_task(args.task, args.parameters);
  if (!task) return std::unexpected(task.error());
  auto input = make_input(session, client, args.task, *task, args.parameters);
  if (!input) return std::unexpected(input.error());
  spec.set_input(*std::move(input));
  return {};
}

base::Result<api::ScheduleSpec> make_spec(Session& session, client::Client& client,
                                          const ScheduleArgs& args) {
  api::ScheduleSpec spec;
  if (args.crons.empty() && args.every.empty())
    return base::fail(Code::usage, "say when it fires: --cron \"0 9 * * *\", or --every 15m");
  for (const auto& cron : args.crons) spec.add_crons(cron);
  if (auto times = fill_times(args, spec); !times) return std::unexpected(times.error());
  if (auto work = fill_work(session, client, args, spec); !work) return std::unexpected(work.error());
  spec.set_user(args.user);
  spec.set_zone(args.zone);
  spec.set_overlap(args.overlap);
  spec.set_buffer(args.buffer);
  spec.set_one_session(args.one_session);
  spec.set_catch_up_most(args.catch_up_most);
  spec.set_runs(args.runs);
  return spec;
}

/// "2026-03-29T01:30:00Z"; "-" for 0. Fires are named by the same text.
std::string show_moment(std::int64_t ms) {
  if (ms == 0) return "-";
  const std::chrono::sys_seconds at(std::chrono::seconds(ms / 1000));
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text.data();
}

std::string code_text(std::uint32_t code) {
  return code == 0 ? "" : " (" + std::string(base::name_of(static_cast<Code>(code))) + ")";
}

Outcome changed(const Session& session, const base::Result<api::CommandReply>& reply,
                const ScheduleArgs& args, const char* what) {
  if (!reply) return std::unexpected(reply.error());
  if (session.json()) {
    print_line(to_json({{"name", args.name}, {"result", what}}));
  } else {
    print_line("schedule " + safe(args.name) + " " + what);
    if (std::string_view(what) != "deleted")
      print_line("see it with: " + session.hint("schedule show " + args.name));
  }
  return base::Exit::ok;
}

using NamedCall = base::Result<api::CommandReply> (client::Client::*)(const api::ScheduleRequest&);

Outcome by_name(Session& session, const ScheduleArgs& args, NamedCall call, const char* what) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::ScheduleRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_name(args.name);
  return changed(session, ((**client).*call)(request), args, what);
}

std::string news_line(const api::ScheduleNews& news) {
  std::string text = show_time(news.at_ms()) + "  " + safe(news.what());
  if (news.what() == "skipped") {
    text +=
        " " + std::to_string(news.count()) + ": " + safe(news.reason()) + ", " + show_moment(news.first_ms());
    return news.count() > 1 ? text + " to " + show_moment(news.last_ms()) : text;
  }
  return text + " " + safe(news.fire()) + "  " + safe(news.run_id()) + code_text(news.error_code());
}

void print_counts(const api::ScheduleDetail& detail) {
  std::string line = "runs:      " + std::to_string(detail.started()) + " started, " +
                     std::to_string(detail.completed()) + " completed, " +
                     std::to_string(detail.not_completed()) + " ended otherwise";
  for (const auto& skip : detail.skipped())
    line += "; " + std::to_string(skip.count()) + " skipped (" + safe(skip.reason()) + ")";
  print_line(line);
}

void print_detail(const api::ScheduleDetail& detail) {
  const auto& summary = detail.summary();
  const auto& spec = detail.spec();
  print_line(paint(Colour::bold, safe(summary.name())) + "  " + safe(summary.status()) + "  " +
             safe(summary.schedule_id()));
  print_line("fires:     " + safe(summary.rules()) + "  in " + safe(summary.zone()) +
             (detail.zone_data().empty() ? "" : " (zones " + safe(detail.zone_data()) + ")"));
  print_line("runs of:   " + safe(summary.workflow()) + " for " + safe(summary.user()) +
             (spec.one_session() ? ", all in one session" : ""));
  print_line("overlap:   " + safe(summary.overlap()) + "; catches up with what is at most " +
             show_duration(spec.catch_up_ms()) + " late, " + std::to_string(spec.catch_up_most()) +
             " at most");
  print_line("changed:   " + show_time(detail.changed_ms()) + " by " + safe(detail.changed_by()));
  if (detail.paused_ms() != 0) print_line("paused:    " + show_time(detail.paused_ms()));
  if (summary.error_code() != 0)
    print_line(paint(Colour::red, "problem:  " + code_text(summary.error_code()) + " ") +
               safe(detail.error()));
  print_counts(detail);
  for (const auto& run : detail.open()) {
    print_line("open:      " + safe(run.run_id()) + "  " + safe(run.fire()) + " since " +
               show_time(run.started_ms()) + (run.stopped() ? ", asked to end" : ""));
  }
  for (const auto& fire : detail.waiting()) print_line("waits:     " + safe(fire));
  if (detail.backfills() != 0) print_line("backfills: " + std::to_string(detail.backfills()) + " under way");
  for (const auto moment : detail.upcoming_ms()) print_line("next:      " + show_moment(moment));
  if (detail.upcoming_ms_size() == 0) print_line("next:      never again");
  for (const auto& news : detail.news()) print_line(news_line(news));
}

}  // namespace

Outcome schedule_create(Session& session, const ScheduleArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  auto spec = make_spec(session, **client, args);
  if (!spec) return std::unexpected(spec.error());
  api::CreateScheduleRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_name(args.name);
  *request.mutable_spec() = *std::move(spec);
  return changed(session, (*client)->create_schedule(request), args, "created");
}

Outcome schedule_update(Session& session, const ScheduleArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  auto spec = make_spec(session, **client, args);
  if (!spec) return std::unexpected(spec.error());
  api::UpdateScheduleRequest request;
  request.set_request_id(id_or_new(args.request_id));
  request.set_name(args.name);
  request.set_keep_input(args.keep_input);
  *request.mutable_spec() = *std::move(spec);
  return changed(session, (*client)->update_schedule(request), args, "changed");
}

Outcome schedule_pause(Session& session, const ScheduleArgs& args) {
  return by_name(session, args, &client::Client::pause_schedule, "paused");
}
Outcome schedule_resume(Session& session, const ScheduleArgs& args) {
  return by_name(session, args, &client::Client::resume_schedule, "resumed");
}
Outcome schedule_trigger(Session& session, const ScheduleArgs& args) {
  return by_name(session, args, &client::Client::trigger_schedule, "triggered");
}
Outcome schedule_delete(Session& session, const ScheduleArgs& args) {
  return by_name(session, args, &client::Client::delete_schedule, "deleted");
}

Outcome schedule_backfill(Session& session, const ScheduleArgs& args) {
  api::BackfillScheduleRequest request;
  Fields fields;
  fields.moment(args.from, [&](std::int64_t ms) { request.set_from_ms(ms); });
  fields.moment(args.to, [&](std::int64_t ms) { request.set_to_ms(ms); });
  if (!fields.status()) return std::unexpected(fields.status().error());
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  request.set_request_id(id_or_new(args.request_id));
  request.set_name(args.name);
  return changed(session, (*client)->backfill_schedule(request), args,
                 "is being backfilled; `schedule show` says how far, `schedule delete` stops it");
}

Outcome schedule_list(Session& session, const ScheduleArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::ListSchedulesRequest request;
  request.set_page_size(args.limit);
  request.set_page_token(args.page);
  const auto schedules = (*client)->list_schedules(request);
  if (!schedules) return std::unexpected(schedules.error());
  if (session.json()) {
    print_line(to_json(*schedules));
    return base::Exit::ok;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATUS", "FIRES", "ZONE", "OVERLAP", "WORKFLOW", "USER", "NEXT"}};
  for (const auto& one : schedules->schedules()) {
    rows.push_back({one.name(), one.status() + code_text(one.error_code()), one.rules(), one.zone(),
                    one.overlap(), one.workflow(), one.user(), show_moment(one.next_ms())});
  }
  print_table(rows);
  if (schedules->schedules_size() == 0) print_line(paint(Colour::dim, "no schedules"));
  if (!schedules->next_page_token().empty())
    print_line("more with: " + session.hint("schedule list --page " + schedules->next_page_token()));
  return base::Exit::ok;
}

Outcome schedule_show(Session& session, const ScheduleArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::GetScheduleRequest request;
  request.set_name(args.name);
  const auto detail = (*client)->get_schedule(request);
  if (!detail) return std::unexpected(detail.error());
  if (session.json()) {
    print_line(to_json(*detail));
  } else {
    print_detail(*detail);
  }
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
