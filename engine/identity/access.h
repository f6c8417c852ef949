// The one check that every call passes before any state is touched: which roles may call what, and whose
// things they may see. A table, so that it can be read as one. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/result.h"
#include "engine/identity/identity.h"

namespace sandglass::engine::identity {

enum class Call : std::uint8_t {
  start_run,
  list_runs,
  get_run,
  follow_run,
  signal_run,
  cancel_run,
  terminate_run,
  resume_run,
  list_approvals,
  decide,
  describe_journal,
  read_history,
  read_order,
  hold_checkpoint,
  upload_tree,
  list_artifacts,
  get_artifact,
  create_token,
  revoke_token,
  list_tokens,
  status,
  query_run,
  update_run,
  count_runs,
  work,
  create_schedule,
  update_schedule,
  pause_schedule,
  resume_schedule,
  delete_schedule,
  trigger_schedule,
  backfill_schedule,
  get_schedule,
  list_schedules,
};

std::string_view name_of(Call call);

/// Roles of which the caller needs at least one.
Roles allowed_roles(Call call);

/// permission_denied, naming the call and the roles that may make it.
base::Status may_call(const Caller& caller, Call call);

/// Whether the caller may see and touch what belongs to this tenant and user. Callers hide what it denies as
/// if it did not exist, so that ids of other tenants cannot be probed.
bool may_touch(const Caller& caller, std::string_view tenant, std::string_view user);

/// The tenant of whoever runs the installation: the tokens of the first start belong to it.
inline constexpr std::string_view kHomeTenant = "default";

/// Whether the caller may read what holds several tenants' things together: partitions in their order, and
/// streams that are not runs. Admins, and auditors of the installation itself; an auditor of one tenant sees
/// that tenant's runs.
bool may_read_all_tenants(const Caller& caller);

}  // namespace sandglass::engine::identity
