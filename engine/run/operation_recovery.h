// The two halves of an operation's rules call each other here. Internal to engine/run.
#pragma once

#include <string>

#include "engine/run/decision.h"

namespace sandglass::engine::run {

/// Probes that fail this often in a row end in a question to a person.
inline constexpr std::uint32_t kMaxProbeFailures = 8;

void settle(Decision& d, const std::string& path, core::Outcome outcome,
            const core::ActionFinished& finished);
/// Certainly not done: again by policy, or settled.
void on_not_done(Decision& d, const std::string& path, const core::ActionFinished& finished);
/// May have been done: reconciled as the tool declares, never sent again blindly (O2).
void on_unknown(Decision& d, const std::string& path, const core::ActionFinished& finished);
/// Takes back what a person was asked: the operation ends some other way.
void withdraw_question(Decision& d, const std::string& path, const Operation& operation);
/// An intent of an earlier owner without an outcome.
Status on_owner_lost(Decision& d, const std::string& path);
Status on_probed(Decision& d, const std::string& path, const core::ActionFinished& finished);
core::Action probe_action(const Operation& operation, const std::string& path, const std::string& key,
                          const core::DecideInput& input);

/// Nothing of it is out, so that a cancel ends it at once.
inline bool ends_on_cancel(const Operation& operation) {
  return operation.status == OperationStatus::waiting || operation.status == OperationStatus::asking ||
         (operation.status == OperationStatus::backoff && operation.unknown_since_ms == 0);
}

}  // namespace sandglass::engine::run
