// Showing an approval as the person who decides must see it: tool, target, arguments, the parts that will
// leave with the digest of each, and the digest that the decision is bound to (H1).
#pragma once

#include <string>

#include "replay-tools/cli/session.h"
#include "schemas/sandglass/v1/approval.pb.h"

namespace sandglass::replay_tools::cli {

/// Lines, escaped and coloured, each ending with a line break.
std::string approval_text(const Session& session, const ::sandglass::v1::ApprovalView& approval);

}  // namespace sandglass::replay_tools::cli
