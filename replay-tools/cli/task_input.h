// From a task file to the input of a run of workflow "agent": its own inputs are uploaded on the way.
#pragma once

#include <map>
#include <string>

#include "activities/agent/taskfile/taskfile.h"
#include "replay-tools/cli/session.h"

namespace sandglass::replay_tools::cli {

/// The parsed file, once what it names can be read.
base::Result<activities::agent::taskfile::TaskFile> read_task(
    const std::string& file, const std::map<std::string, std::string>& parameters);

/// JSON.
base::Result<std::string> make_input(Session& session, client::Client& client, const std::string& file,
                                     const activities::agent::taskfile::TaskFile& task,
                                     const std::map<std::string, std::string>& parameters);

}  // namespace sandglass::replay_tools::cli
