// Exit codes of our programs: one table, documented in docs/guides/exit-codes.md and by `sandglass help
// exit-codes`.
#pragma once

#include "engine/base/codes.h"

namespace sandglass::engine::base {

/// Why a program ended. Values are part of the interface: never used again for something else.
enum class Exit : int {
  ok = 0,
  internal = 1,     // a fault of ours; the message says where to look
  usage = 2,        // the command line is not valid
  bad_file = 3,     // configuration, task file or an input file
  unreachable = 4,  // no engine answers, or it is too busy; try again
  denied = 5,       // token or role
  not_found = 6,
  refused = 7,  // exists already, in conflict, closed, not valid
  folder = 8,   // data folder locked, of another version, damaged
  address_in_use = 9,
  machine = 10,        // disk full, input/output error, a limit that cannot be enforced
  run_failed = 20,     // the run ended: failed by what it was asked to do
  run_cancelled = 21,  // cancelled or terminated
  run_stuck = 22,      // parked; it goes on when its cause is gone
  run_platform = 23,   // the run ended: failed by the platform
  run_denied = 24,     // the run ended: an approval was denied or expired
  detached = 130,      // Ctrl-C; the run goes on
};

/// The exit code of a program that ends because of this error.
Exit exit_for(Code code);

/// The exit code of a command that followed a run to a failed end with this error.
Exit exit_for_failed_run(Code code);

}  // namespace sandglass::engine::base
