// Leases that the run holds: each was granted by an exchange and is known by that exchange's path. They are
// kept over checkpoints and given back when the run ends.
#include "engine/run/decision.h"

namespace sandglass::engine::run {

Status apply_command(Decision& d, const ReleaseLease& command) {
  const auto found = d.state().leases.find(command.lease);
  if (found != d.state().leases.end() && !found->second.returning) {
    d.out().send(found->second.pool, command.lease,
                 core::LeaseReturned{found->second.sandbox, found->second.token});
  }
  // One that has ended already: the workflow hears so again, in a turn of its own. If the run ends first, the
  // timer finds nobody.
  if (found == d.state().leases.end()) d.out().start_timer(lease_timer(command.lease), d.now_ms());
  d.emit(LeaseReleased{command.path, command.lease});
  return {};
}

Status decide_lease_timer(Decision& d, const std::string& lease) {
  if (!d.state().open() || d.state().leases.contains(lease)) return stale(lease);
  d.emit(LeaseClosed{lease, base::Code::ok});
  d.activate();
  return {};
}

void apply(State& state, const LeaseReleased& event, const core::TurnInfo&) {
  const auto found = state.leases.find(event.lease);
  if (found != state.leases.end()) found->second.returning = true;
}
void apply(State&, const LeaseRenewed&, const core::TurnInfo&) {}
void apply(State& state, const LeaseClosed& event, const core::TurnInfo&) {
  state.leases.erase(event.lease);
}

}  // namespace sandglass::engine::run
