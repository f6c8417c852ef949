// Following a run on the command line: progress, approvals on a terminal, Ctrl-C, and the exit code at its
// end.
#pragma once

#include <cstdint>
#include <string>

#include "replay-tools/cli/session.h"

namespace sandglass::replay_tools::cli {

struct FollowOptions {
  std::string run_id;
  std::uint64_t after_seq = 0;
  /// Ctrl-C once cancels the run and waits, twice detaches. Else once detaches.
  bool cancel_on_interrupt = false;
  /// On a terminal, approvals are shown and asked for (with the token `approver`).
  bool ask_approvals = false;
};

/// Until the run has closed or the person has had enough.
Outcome follow(Session& session, client::Client& client, const FollowOptions& options);

/// What a finished run means as an exit code.
base::Exit exit_of(const api::RunSummary& summary);

}  // namespace sandglass::replay_tools::cli
