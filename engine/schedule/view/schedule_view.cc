#include "engine/schedule/view/schedule_view.h"

#include <type_traits>
#include <variant>

#include "engine/view/row_reader.h"

namespace sandglass::engine::schedule::view {
namespace {

constexpr std::uint32_t kRowVersion = 1;

/// Schedules share the visibility index with runs: the kind stands above what orders them.
constexpr std::uint64_t kSort = static_cast<std::uint64_t>(core::StreamKind::schedule) << 56;

bool is_listed(const State& state) {
  return state.stage == Stage::active || state.stage == Stage::paused;
}

std::string duration_text(std::int64_t ms) {
  constexpr std::pair<std::int64_t, const char*> kUnits[] = {
      {86'400'000, " d"}, {3'600'000, " h"}, {60'000, " min"}, {1000, " s"}};
  for (const auto& [unit, name] : kUnits) {
    if (ms % unit == 0) return std::to_string(ms / unit) + name;
  }
  return std::to_string(ms) + " ms";
}

}  // namespace

std::string rules_text(const Timing& timing) {
  std::string text;
  const auto add = [&text](const std::string& rule) { text += (text.empty() ? "" : "; ") + rule; };
  for (const std::string& cron : timing.crons) add(cron);
  for (const Interval& interval : timing.intervals) {
    add("every " + duration_text(interval.every_ms) +
        (interval.offset_ms == 0 ? "" : " and " + duration_text(interval.offset_ms)));
  }
  return text;
}

ScheduleRow row_of(const State& state) {
  const Definition& definition = state.definition;
  return {.stage = state.stage,
          .overlap = definition.overlap,
          .next_ms = state.stage == Stage::active && state.next && !state.used_up() ? state.next->due_ms : 0,
          .problem = state.problem,
          .name = definition.name,
          .tenant = definition.tenant,
          .user = definition.user,
          .workflow = definition.workflow,
          .zone = definition.timing.zone,
          .rules = rules_text(definition.timing)};
}

std::string encode_row(const ScheduleRow& row) {
  std::string out;
  for (const std::uint32_t number :
       {kRowVersion, static_cast<std::uint32_t>(row.stage), static_cast<std::uint32_t>(row.overlap),
        static_cast<std::uint32_t>(row.problem)}) {
    tables::put_u32(out, number);
  }
  tables::put_u64(out, static_cast<std::uint64_t>(row.next_ms));
  for (const std::string* text : {&row.name, &row.tenant, &row.user, &row.workflow, &row.zone, &row.rules})
    tables::put_text(out, *text);
  return out;
}

base::Result<ScheduleRow> decode_row(std::string_view value) {
  tables::RowReader take{value};
  ScheduleRow row;
  const std::uint32_t version = take.u32();
  row.stage = static_cast<Stage>(take.u32());
  row.overlap = static_cast<Overlap>(take.u32());
  row.problem = static_cast<base::Code>(take.u32());
  row.next_ms = take.i64();
  for (std::string* text : {&row.name, &row.tenant, &row.user, &row.workflow, &row.zone, &row.rules}) {
    *text = take.text();
  }
  if (!take.ok || !take.rest.empty() || version != kRowVersion)
    return base::fail(base::Code::record_damaged,
                      "a schedule's row in the list cannot be read; rebuild the view");
  return row;
}

std::string schedule_row_key(core::PartitionId partition, const core::StreamId& stream) {
  return tables::index_key(partition, tables::Index::visibility, kSort, stream);
}

tables::KeyRange schedule_rows(core::PartitionId partition) {
  return tables::index_range(partition, tables::Index::visibility, kSort, kSort + 1);
}

bool ScheduleView::projects(const Event& event) {
  return std::visit(
      []<class E>(const E&) {
        return std::is_same_v<E, ScheduleCreated> || std::is_same_v<E, ScheduleUpdated> ||
               std::is_same_v<E, SchedulePaused> || std::is_same_v<E, ScheduleResumed> ||
               std::is_same_v<E, ScheduleDeleted> || std::is_same_v<E, PlanTaken> ||
               std::is_same_v<E, PlanFailed> || std::is_same_v<E, Fired>;
      },
      event);
}

void ScheduleView::project(const State& before, const State& after, const core::StreamId& stream,
                           core::PartitionId partition, std::vector<tables::ViewChange>& changes) {
  if (!is_listed(after)) {
    if (is_listed(before)) changes.push_back({schedule_row_key(partition, stream), std::nullopt});
    return;
  }
  ScheduleRow row = row_of(after);
  if (is_listed(before) && row_of(before) == row) return;
  changes.push_back({schedule_row_key(partition, stream), encode_row(row)});
}

}  // namespace sandglass::engine::schedule::view
