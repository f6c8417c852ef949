#include "sandbox-runtime/provider/linux/sandbox_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::Code;
using engine::base::fail;
using engine::base::Status;
using engine::base::UniqueFd;

Status write_record(const std::string& path, const SandboxRecord& record) {
  std::string text = "format 1\n";
  const auto line = [&](const char* key, std::uint64_t value) {
    text += std::string(key) + " " + std::to_string(value) + "\n";
  };
  line("uid_base", record.uid_base);
  line("memory", record.memory);
  line("pids", record.pids);
  line("disk", record.disk);
  line("network", record.network);
  line("image_inode", record.image_inode);
  if (record.loop >= 0) line("loop", static_cast<std::uint64_t>(record.loop));
  const std::string fresh = path + ".new";
  const UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || !write_all(file.get(), text) || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return fail(errno == ENOSPC ? Code::disk_full : Code::provider_failed,
                "sandbox record " + path + ": " + error_text(errno));
  }
  return {};
}

std::optional<SandboxRecord> read_record(const std::string& path) {
  const auto text = read_file(path, 4096);
  if (!text || counter_in(*text, "format") != 1) return std::nullopt;
  SandboxRecord record;
  const auto value = [&](const char* key) { return counter_in(*text, key).value_or(0); };
  record.uid_base = static_cast<std::uint32_t>(value("uid_base"));
  record.memory = value("memory");
  record.pids = value("pids");
  record.disk = value("disk");
  record.network = value("network");
  record.image_inode = value("image_inode");
  if (const auto loop = counter_in(*text, "loop")) record.loop = static_cast<std::int64_t>(*loop);
  return record;
}

std::vector<std::string> recorded_ids(const std::string& folder, const std::string& prefix) {
  constexpr std::string_view kEnd = ".jail";
  std::vector<std::string> ids;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (entries == nullptr) return ids;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || !name.ends_with(kEnd)) continue;
    ids.emplace_back(name.substr(prefix.size(), name.size() - prefix.size() - kEnd.size()));
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
