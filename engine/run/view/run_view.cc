#include "engine/run/view/run_view.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "engine/run/view/attributes.h"
#include "engine/view/row_reader.h"

namespace sandglass::engine::run::view {
namespace {

constexpr std::uint32_t kRowVersion = 1;

/// Runs share the visibility index with other kinds: the kind stands above the time.
std::uint64_t sort_of(std::int64_t started_ms) {
  constexpr std::int64_t kGreatest = (std::int64_t{1} << 56) - 1;
  return (static_cast<std::uint64_t>(core::StreamKind::run) << 56) |
         static_cast<std::uint64_t>(std::clamp<std::int64_t>(started_ms, 0, kGreatest));
}

std::uint32_t questions_of(const State& state) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      state.operations, [](const auto& entry) { return entry.second.status == OperationStatus::asking; }));
}

}  // namespace

RunRow row_of(const State& state) {
  return {.status = state.status,
          .phase = state.phase,
          .workflow = state.workflow,
          .version = state.version,
          .tenant = state.tenant,
          .user = state.user,
          .session = state.session,
          .started_ms = state.started_ms,
          .closed_ms = state.closed_ms,
          .stuck_since_ms = state.stuck_since_ms,
          .code = state.status == RunStatus::stuck ? state.stuck.code : state.end_code,
          .cancel_requested = state.cancel_requested,
          .questions = questions_of(state)};
}

std::string encode_row(const RunRow& row) {
  std::string out;
  for (const std::uint32_t number :
       {kRowVersion, static_cast<std::uint32_t>(row.status), static_cast<std::uint32_t>(row.phase),
        static_cast<std::uint32_t>(row.code), static_cast<std::uint32_t>(row.cancel_requested),
        row.questions}) {
    tables::put_u32(out, number);
  }
  for (const std::int64_t time : {row.started_ms, row.closed_ms, row.stuck_since_ms}) {
    tables::put_u64(out, static_cast<std::uint64_t>(time));
  }
  for (const std::string* text : {&row.workflow, &row.version, &row.tenant, &row.user, &row.session}) {
    tables::put_text(out, *text);
  }
  return out;
}

base::Result<RunRow> decode_row(std::string_view value) {
  tables::RowReader take{value};
  RunRow row;
  const std::uint32_t version = take.u32();
  row.status = static_cast<RunStatus>(take.u32());
  row.phase = static_cast<Phase>(take.u32());
  row.code = static_cast<base::Code>(take.u32());
  row.cancel_requested = take.u32() != 0;
  row.questions = take.u32();
  for (std::int64_t* time : {&row.started_ms, &row.closed_ms, &row.stuck_since_ms}) *time = take.i64();
  for (std::string* text : {&row.workflow, &row.version, &row.tenant, &row.user, &row.session})
    *text = take.text();
  if (!take.ok || !take.rest.empty() || version != kRowVersion) {
    return base::fail(base::Code::record_damaged, "a run's visibility row cannot be read; rebuild the view");
  }
  return row;
}

std::string run_row_key(core::PartitionId partition, std::int64_t started_ms, const core::StreamId& stream) {
  return tables::index_key(partition, tables::Index::visibility, sort_of(started_ms), stream);
}

std::int64_t started_of_run_row(std::uint64_t sort) {
  return static_cast<std::int64_t>(sort & ((std::uint64_t{1} << 56) - 1));
}

tables::KeyRange run_rows(core::PartitionId partition, std::int64_t first_started_ms,
                          std::int64_t last_started_ms) {
  return tables::index_range(partition, tables::Index::visibility, sort_of(first_started_ms),
                             sort_of(last_started_ms));
}

bool RunView::projects(const Event& event) {
  return std::visit(
      []<class E>(const E&) {
        constexpr bool kLifecycle = std::is_same_v<E, RunStarted> || std::is_same_v<E, RunCompleted> ||
                                    std::is_same_v<E, RunFailed> || std::is_same_v<E, RunCancelled> ||
                                    std::is_same_v<E, RunTerminated> || std::is_same_v<E, RunStuck> ||
                                    std::is_same_v<E, RunResumed> || std::is_same_v<E, CancelRequested> ||
                                    std::is_same_v<E, PhaseSet> || std::is_same_v<E, RunContinued>;
        constexpr bool kQuestions =
            std::is_same_v<E, OperationUnknown> || std::is_same_v<E, OperationProbed> ||
            std::is_same_v<E, OperationDecided> || std::is_same_v<E, OperationSettled> ||
            std::is_same_v<E, OperationCancelRequested>;
        return kLifecycle || kQuestions;
      },
      event);
}

void RunView::project_content(const Event& event, const std::vector<core::SlotPtr>& slots, const State& after,
                              const core::StreamId& stream, core::PartitionId partition,
                              std::vector<tables::ViewChange>& changes) {
  const auto* set = std::get_if<AttributesSet>(&event);
  if (set == nullptr || set->attributes.slot >= slots.size()) return;
  project_attributes(slots[set->attributes.slot]->bytes, after.started_ms, stream, partition, changes);
}

void RunView::project(const State& before, const State& after, const core::StreamId& stream,
                      core::PartitionId partition, std::vector<tables::ViewChange>& changes) {
  if (after.status == RunStatus::none) return;
  RunRow row = row_of(after);
  if (before.status != RunStatus::none && row_of(before) == row) return;
  changes.push_back({run_row_key(partition, after.started_ms, stream), encode_row(row)});
}

}  // namespace sandglass::engine::run::view
