// The run that a command is about.
#pragma once

#include <memory>
#include <string>

#include "replay-tools/cli/session.h"

namespace sandglass::replay_tools::cli {

/// Whether a person who says `text` may mean this run: it begins with that, "run-" left out or not.
bool may_name(const std::string& text, const std::string& run_id);

/// The id that begins with `text`, with or without "run-", of the runs that the token may see; a whole id is
/// not looked up. usage: that is no beginning of an id, or several runs have it; not_found: none has.
base::Result<std::string> find_run(client::Client& client, const std::string& text);

struct OneRun {
  std::unique_ptr<client::Client> client;
  std::string id;
};
/// As Session::open, and the run that `text` names.
base::Result<OneRun> open_run(const Session& session, const std::string& text);

}  // namespace sandglass::replay_tools::cli
