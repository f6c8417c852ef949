#include "sandbox-runtime/keeper/groups.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

namespace sandglass::sandbox_runtime::keeper {
namespace {

constexpr int kTries = 200;
constexpr timespec kPause{0, 5'000'000};

/// <root>/sandglass-…/init[/tasks] → <root>/sandglass-…; empty for anything else.
std::string folder_of(const engine::base::UniqueFd& fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) == path.size()) return {};
  std::string_view folder(path.data(), static_cast<std::size_t>(length));
  const std::size_t init = folder.rfind("/init");
  if (init == std::string_view::npos) return {};
  folder = folder.substr(0, init);
  return folder.substr(folder.rfind('/') + 1).starts_with("sandglass-") ? std::string(folder) : std::string();
}

bool remove_group(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (entries == nullptr) return errno == ENOENT;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') ::rmdir((folder + "/" + entry->d_name).c_str());
  }
  return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

std::vector<std::string> group_folders(const std::vector<engine::base::UniqueFd>& entries,
                                       const engine::base::UniqueFd& leaf) {
  std::vector<std::string> folders;
  const auto add = [&](const engine::base::UniqueFd& fd) {
    if (std::string folder = folder_of(fd); !folder.empty()) folders.push_back(std::move(folder));
  };
  for (const auto& entry : entries) add(entry);
  if (leaf) add(leaf);
  return folders;
}

void remove_groups(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    for (int tries = 0; !remove_group(folder) && tries < kTries; ++tries) ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace sandglass::sandbox_runtime::keeper
