#include "engine/server/installation.h"

#include <utility>

#include "engine/base/data_folder.h"

namespace sandglass::engine::server {

base::Result<Installation> find_installation(const ServerArguments& arguments) {
  auto folder = base::choose_data_folder(arguments.data);
  if (!folder) return std::unexpected(folder.error());
  const bool named = !arguments.config.empty();
  auto config = load_config(named ? arguments.config : base::DataFolder::config_file(*folder), named,
                            arguments.settings);
  if (!config) return std::unexpected(config.error());
  Separation separation = find_separation(config->processes);
  return Installation{std::move(*folder), std::move(*config), std::move(separation)};
}

}  // namespace sandglass::engine::server
