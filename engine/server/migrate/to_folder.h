// From a Kafka topic to the folder that has its view. Errors and thread rule: migrate.h.
#pragma once

#include "engine/base/result.h"
#include "engine/server/migrate/migrate.h"

namespace sandglass::engine::server::migrate {

base::Result<Report> move_to_folder(const Options& options);
/// The topic's journal is open again.
base::Result<Report> stay_on_topic(const Options& options);

}  // namespace sandglass::engine::server::migrate
