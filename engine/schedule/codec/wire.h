// Protobuf messages of schedules and what they stand for, both ways. Thread rule: pure functions.
#pragma once

#include "engine/base/result.h"
#include "engine/codec/common.h"
#include "engine/schedule/decider.h"
#include "schemas/sandglass/record/v1/schedule.pb.h"

namespace sandglass::engine::schedule::codec {

namespace pb = ::sandglass::record::v1;

std::unexpected<base::Error> damaged(std::string_view what);

void to_proto(const Definition& definition, pb::ScheduleDefinition& out);
base::Result<Definition> from_proto(const pb::ScheduleDefinition& in);

void to_proto(const Occurrence& occurrence, pb::ScheduleOccurrence& out);
Occurrence from_proto(const pb::ScheduleOccurrence& in);
void to_proto(const Passed& passed, pb::SchedulePassed& out);
Passed from_proto(const pb::SchedulePassed& in);
void to_proto(const Fire& fire, pb::ScheduleFire& out);
base::Result<Fire> from_proto(const pb::ScheduleFire& in);
void to_proto(const PlanAsked& asked, pb::PlanAsked& out);
PlanAsked from_proto(const pb::PlanAsked& in);

inline bool is_reason(std::uint32_t value) {
  return value >= 1 && value <= kSkipReasons;
}
inline bool is_run_end(std::uint32_t value) {
  return value >= 1 && value <= static_cast<std::uint32_t>(RunEnd::refused);
}

}  // namespace sandglass::engine::schedule::codec
