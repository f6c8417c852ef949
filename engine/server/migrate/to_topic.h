// From the folder to a Kafka topic. Errors and thread rule: migrate.h.
#pragma once

#include "engine/base/result.h"
#include "engine/server/migrate/migrate.h"

namespace sandglass::engine::server::migrate {

base::Result<Report> move_to_topic(const Options& options);
/// The folder's journal is open again; what the topic has of it nobody will own.
base::Result<Report> stay_in_folder(const Options& options);

}  // namespace sandglass::engine::server::migrate
