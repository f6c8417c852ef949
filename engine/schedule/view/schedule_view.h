// The list of schedules: one row a schedule that is not deleted, changed when somebody changes it or its next
// moment changes. Names and times, no user content.
// Thread rule: pure functions. Errors: record_damaged for a row that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/schedule/decider.h"
#include "engine/view/keys.h"
#include "engine/view/view.h"

namespace sandglass::engine::schedule::view {

namespace tables = ::sandglass::engine::view;

struct ScheduleRow {
  Stage stage = Stage::none;
  Overlap overlap = Overlap::skip;
  std::int64_t next_ms = 0;  // 0: never again, or not known yet
  base::Code problem = base::Code::ok;
  std::string name, tenant, user, workflow, zone;
  std::string rules;  // as in "0 9 * * *; every 90000 ms"
  friend bool operator==(const ScheduleRow&, const ScheduleRow&) = default;
};

ScheduleRow row_of(const State& state);
std::string encode_row(const ScheduleRow& row);
base::Result<ScheduleRow> decode_row(std::string_view value);

std::string schedule_row_key(core::PartitionId partition, const core::StreamId& stream);
/// The schedules of a partition, in the order of their streams.
tables::KeyRange schedule_rows(core::PartitionId partition);

/// "0 9 * * *; every 90 s"
std::string rules_text(const Timing& timing);

struct ScheduleView {
  static bool projects(const Event& event);
  static void project(const State& before, const State& after, const core::StreamId& stream,
                      core::PartitionId partition, std::vector<tables::ViewChange>& changes);
};

}  // namespace sandglass::engine::schedule::view
