// Files that settings of the Kafka client name. An engine reads them after it has given up the rights of its
// start (V2): a private key, which nobody else may read, is taken before that; the others must be readable
// for the engine's uid.
//
// Thread rule: functions of their arguments. Errors: file_unreadable, which names setting, file and remedy.
#pragma once

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::cluster {

/// The private key's text takes the place of its file's name: ssl.key.pem for ssl.key.location.
base::Status take_private_key(Settings& settings);

/// What a client opens by itself.
std::vector<std::string> files_of(const Settings& settings);

/// Whether this process can read all of them, as it is now.
base::Status check_files(const Settings& settings);

}  // namespace sandglass::engine::journal::kafka::cluster
