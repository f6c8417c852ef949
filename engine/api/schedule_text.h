// Schedules as the API shows them. Thread rule: pure functions, but for the zones' files.
#pragma once

#include "engine/base/result.h"
#include "engine/core/stream_id.h"
#include "engine/schedule/decider.h"
#include "engine/schedule/view/schedule_view.h"
#include "schemas/sandglass/v1/schedule.pb.h"

namespace sandglass::engine::api {

namespace v1 = ::sandglass::v1;

/// Errors: invalid_argument, what check_definition refuses.
base::Result<schedule::Definition> definition_from(const std::string& name, const std::string& tenant,
                                                   const v1::ScheduleSpec& spec);

void fill_summary(const core::StreamId& stream, const schedule::view::ScheduleRow& row,
                  v1::ScheduleSummary& out);
/// All but the upcoming moments.
void fill_detail(const core::StreamId& stream, const schedule::State& state, v1::ScheduleDetail& out);
void fill_upcoming(const core::StreamId& stream, const schedule::State& state, const schedule::Zone& zone,
                   v1::ScheduleDetail& out);

}  // namespace sandglass::engine::api
