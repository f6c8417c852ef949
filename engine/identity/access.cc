#include "engine/identity/access.h"

#include <array>
#include <string>

namespace sandglass::engine::identity {

namespace {

struct Rule {
  Call call;
  std::string_view name;
  Roles roles;
};

constexpr Roles kRunners = Role::admin | Role::operator_ | Role::user;
constexpr Roles kSchedulers = Role::admin | Role::operator_;  // runs of schedules are of service identities
constexpr Roles kReaders = kRunners | Role::auditor | Role::approver;

constexpr auto kRules = std::to_array<Rule>({
    {Call::start_run, "start a run", kRunners},
    {Call::list_runs, "list runs", kReaders},
    {Call::get_run, "show a run", kReaders},
    {Call::follow_run, "watch a run", kReaders},
    {Call::signal_run, "signal a run", kRunners},
    {Call::cancel_run, "cancel a run", kRunners},
    {Call::terminate_run, "terminate a run", Role::admin | Role::operator_},
    {Call::resume_run, "resume a run", Role::admin | Role::operator_},
    {Call::list_approvals, "list approvals", kReaders},
    {Call::decide, "decide an approval", static_cast<Roles>(Role::approver)},
    {Call::describe_journal, "read the journal", Role::admin | Role::operator_ | Role::auditor},
    {Call::read_history, "read a history", kRunners | Role::auditor},
    {Call::read_order, "read the journal", Role::admin | Role::auditor},
    {Call::hold_checkpoint, "back up the journal", static_cast<Roles>(Role::admin)},
    {Call::upload_tree, "upload a tree", kRunners},
    {Call::list_artifacts, "list artifacts", kReaders},
    {Call::get_artifact, "read an artifact", kReaders},
    {Call::create_token, "create a token", static_cast<Roles>(Role::admin)},
    {Call::revoke_token, "revoke a token", static_cast<Roles>(Role::admin)},
    {Call::list_tokens, "list tokens", Role::admin | Role::auditor},
    {Call::status, "ask for the status", kAllRoles},
    {Call::query_run, "query a run", kRunners | Role::auditor},
    {Call::update_run, "update a run", kRunners},
    {Call::count_runs, "count runs", kReaders},
    {Call::work, "carry out steps", static_cast<Roles>(Role::worker)},
    {Call::create_schedule, "create a schedule", kSchedulers},
    {Call::update_schedule, "change a schedule", kSchedulers},
    {Call::pause_schedule, "pause a schedule", kSchedulers},
    {Call::resume_schedule, "resume a schedule", kSchedulers},
    {Call::delete_schedule, "delete a schedule", kSchedulers},
    {Call::trigger_schedule, "trigger a schedule", kSchedulers},
    {Call::backfill_schedule, "backfill a schedule", kSchedulers},
    {Call::get_schedule, "show a schedule", kReaders},
    {Call::list_schedules, "list schedules", kReaders},
});

const Rule& rule(Call call) {
  return kRules[static_cast<std::size_t>(call)];
}

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (static_cast<std::size_t>(kRules[i].call) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table has one rule per call, in the order of the calls");

}  // namespace

std::string_view name_of(Call call) {
  return rule(call).name;
}

Roles allowed_roles(Call call) {
  return rule(call).roles;
}

base::Status may_call(const Caller& caller, Call call) {
  const Rule& found = rule(call);
  if ((caller.roles & found.roles) != 0) return {};
  std::string roles;
  for (const auto& name : role_names(found.roles)) roles += (roles.empty() ? "" : ", ") + name;
  return base::fail(base::Code::permission_denied, "the token " + caller.token_name + " may not " +
                                                       std::string(found.name) + "; one with a role of " +
                                                       roles + " may (choose it with --as NAME)");
}

bool may_touch(const Caller& caller, std::string_view tenant, std::string_view user) {
  if (has(caller.roles, Role::admin)) return true;
  if (caller.tenant != tenant) return false;
  const Roles whole_tenant = Role::operator_ | Role::approver | Role::auditor;
  return (caller.roles & whole_tenant) != 0 || caller.user == user;
}

bool may_read_all_tenants(const Caller& caller) {
  return has(caller.roles, Role::admin) || (has(caller.roles, Role::auditor) && caller.tenant == kHomeTenant);
}

}  // namespace sandglass::engine::identity
