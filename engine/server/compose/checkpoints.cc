#include "engine/server/compose/checkpoints.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/log.h"

namespace sandglass::engine::server::compose {
namespace {

namespace fs = std::filesystem;

constexpr int kMostHeld = 4;
constexpr const char* kPrefix = "checkpoint-";

void remove(const std::string& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (failed) {
    base::log(base::LogLevel::warning, "checkpoint_left", {{"folder", folder}, {"reason", failed.message()}});
  }
}

/// One of them, on disk as long as this.
struct Held {
  Held(std::string below, const std::string& data, std::shared_ptr<std::atomic<int>> all)
      : name(std::move(below)), folder(data + "/" + name), count(std::move(all)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    remove(folder);
    --*count;
  }

  const std::string name;
  const std::string folder;
  const std::shared_ptr<std::atomic<int>> count;
};

}  // namespace

Checkpoints::Checkpoints(const base::DataFolder& folder, const view::Database& database)
    : path_(folder.path()), database_(database) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder.journal(), failed)) {
    if (entry.path().filename().string().starts_with(kPrefix)) remove(entry.path().string());
  }
}

base::Result<std::shared_ptr<const std::string>> Checkpoints::make() {
  if (++*held_ > kMostHeld) {
    --*held_;
    return base::fail(base::Code::overloaded, std::to_string(kMostHeld) +
                                                  " backups are being made; try again when one of them has "
                                                  "ended");
  }
  const auto held =
      std::make_shared<Held>(std::string("journal/") + kPrefix + std::to_string(++last_), path_, held_);
  if (auto made = database_.checkpoint(held->folder); !made) return std::unexpected(made.error());
  return std::shared_ptr<const std::string>(held, &held->name);
}

}  // namespace sandglass::engine::server::compose
