// The tokens that a new data folder gets, and the identities that the gate knows.
#pragma once

#include <functional>

#include "engine/api/gate.h"
#include "engine/base/data_folder.h"
#include "engine/base/ports.h"
#include "engine/server/compose/loop.h"

namespace sandglass::engine::server::compose {

/// Makes the tokens operator, approver and auditor where the identity stream has none of that name: first the
/// file, then the record, so that a kill in between is repaired by the next start. Blocks until they are
/// durable.
base::Status ensure_first_tokens(Loop& loop, const base::DataFolder& folder, base::Random& random);

/// Shows the gate the identity stream's newest durable state, then calls `then`.
void refresh_identities(Loop& loop, api::Gate& gate, std::move_only_function<void(base::Status)> then);

}  // namespace sandglass::engine::server::compose
