// The command line of `sandglass`: parses it and calls the command.
#pragma once

#include "engine/base/exit_code.h"
#include "replay-tools/cli/history.h"

namespace sandglass::replay_tools::cli {

engine::base::Exit run_command_line(int argc, char** argv, const HistoryAdapters& adapters);

}  // namespace sandglass::replay_tools::cli
