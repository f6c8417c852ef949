// What is shown of the inbox of people: approvals and questions about outcomes, with their payloads.
#pragma once

#include "activities/approvals/approvals.h"
#include "engine/api/backend.h"
#include "engine/identity/identity.h"
#include "schemas/sandglass/v1/approval.pb.h"

namespace sandglass::engine::api {

/// Blocking: those that the caller may see. `run_id`: of this run only, unless empty.
base::Result<::sandglass::v1::ListApprovalsReply> read_approvals(
    const journal::Reader& reader, const identity::Caller& caller,
    const activities::approvals::ApprovalsState& state, const std::string& run_id, bool ended_too);

}  // namespace sandglass::engine::api
