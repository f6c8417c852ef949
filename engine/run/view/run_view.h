// Visibility of runs: one row a run, in the order of their starts, changed on transitions only (J9). Names
// and times, no user content; that is in rows of its own (attributes.h).
//
// Thread rule: pure functions. Errors: record_damaged for a row that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/run/events.h"
#include "engine/run/state.h"
#include "engine/view/keys.h"
#include "engine/view/view.h"

namespace sandglass::engine::run::view {

namespace tables = ::sandglass::engine::view;

struct RunRow {
  RunStatus status = RunStatus::none;
  Phase phase = Phase::queued;
  std::string workflow, version, tenant, user, session;
  std::int64_t started_ms = 0;
  std::int64_t closed_ms = 0;  // 0: open
  std::int64_t stuck_since_ms = 0;
  base::Code code = base::Code::ok;  // why it ended or is stuck
  bool cancel_requested = false;
  std::uint32_t questions = 0;  // operations that wait for an operator's decision
  friend bool operator==(const RunRow&, const RunRow&) = default;
};

RunRow row_of(const State& state);
std::string encode_row(const RunRow& row);
base::Result<RunRow> decode_row(std::string_view value);

std::string run_row_key(core::PartitionId partition, std::int64_t started_ms, const core::StreamId& stream);
/// The start of a run by the sort value of its row's key.
std::int64_t started_of_run_row(std::uint64_t sort);
/// Runs of a partition with first ≤ start < last; all by default. parse_index_key() gives a row's stream.
tables::KeyRange run_rows(core::PartitionId partition, std::int64_t first_started_ms = 0,
                          std::int64_t last_started_ms = (std::int64_t{1} << 56) - 1);

struct RunView {
  static bool projects(const Event& event);
  static void project_content(const Event& event, const std::vector<core::SlotPtr>& slots, const State& after,
                              const core::StreamId& stream, core::PartitionId partition,
                              std::vector<tables::ViewChange>& changes);
  static void project(const State& before, const State& after, const core::StreamId& stream,
                      core::PartitionId partition, std::vector<tables::ViewChange>& changes);
};

}  // namespace sandglass::engine::run::view
